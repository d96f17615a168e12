import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.function.IntUnaryOperator;

/**
 * Burns some 60/30/10 % of its CPU in three methods, and says at the end how long it was in each. They differ in how they are called: through
 * a lambda, an interface and an inner class's constructor. Compilers inline all of it. Arguments: seconds of CPU time, and "virtual" to do it
 * in a virtual thread that is unmounted every now and then.
 */
public class Levels {
	static final int UNIT = 2000;
	static volatile int sink;
	static boolean yields;
	static final long[] took = new long[3]; // ns in callSixty, callThirty and callTen

	interface Call {
		int call(int n);
	}

	static class Thirty implements Call {
		public int call(int n) {
			return hotThirty(n) + 1; // calls hotThirty
		}
	}

	static class Ten {
		final int x;

		Ten(int n) {
			x = hotTen(n); // calls hotTen
		}
	}

	static int hotSixty(int n) {
		int x = n;
		for (int i = 0; i < n; i++) // line of hotSixty: compiled code may be stopped here
			x = x * 1664525 + (x >>> 7); // line of hotSixty
		return x;
	}

	static int hotThirty(int n) {
		int x = n;
		for (int i = 0; i < n; i++) // line of hotThirty: compiled code may be stopped here
			x = x * 1664525 + (x >>> 7); // line of hotThirty
		return x;
	}

	static int hotTen(int n) {
		int x = n;
		for (int i = 0; i < n; i++) // line of hotTen: compiled code may be stopped here
			x = x * 1664525 + (x >>> 7); // line of hotTen
		return x;
	}

	static int apply(IntUnaryOperator f, int n) {
		return f.applyAsInt(n); // calls callSixty's lambda
	}

	static int callSixty(int n) {
		return apply( // calls apply
				m -> hotSixty(m) + 1, // calls hotSixty
				n);
	}

	static int callThirty(Call c, int n) {
		return c.call(n); // calls Thirty.call
	}

	static int callTen(int n) {
		return new Ten(n).x; // calls Ten's constructor
	}

	static void rounds(Call thirty, long end) throws Exception {
		OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
		while (system.getProcessCpuTime() < end) {
			for (int i = 0; i < 500; i++)
				sink = round(thirty); // calls round
			if (yields)
				Thread.sleep(1); // a virtual thread's callers are not on the stack afterwards
		}
		System.out.println("TOOK " + took[0] + " " + took[1] + " " + took[2]);
	}

	static int round(Call thirty) {
		long t0 = System.nanoTime();
		int sum = callSixty(6 * UNIT); // calls callSixty
		long t1 = System.nanoTime();
		sum += callThirty(thirty, 3 * UNIT); // calls callThirty
		long t2 = System.nanoTime();
		sum += callTen(UNIT); // calls callTen
		long t3 = System.nanoTime();
		took[0] += t1 - t0;
		took[1] += t2 - t1;
		took[2] += t3 - t2;
		return sum;
	}

	public static void main(String[] args) throws Exception {
		long end = (long) (Double.parseDouble(args[args.length - 1]) * 1e9);
		System.out.println("READY");
		if (!args[0].equals("virtual")) {
			rounds(new Thirty(), end); // calls rounds
			return;
		}
		yields = true;
		Runnable run = () -> {
			try {
				rounds(new Thirty(), end);
			} catch (Exception e) {
				throw new RuntimeException(e);
			}
		};
		// there since JDK 21; this is compiled by older ones, too
		Thread t = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, run);
		t.join();
	}
}
