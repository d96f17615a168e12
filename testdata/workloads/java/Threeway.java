import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Burns 60/30/10 % of its CPU in three methods, for as many seconds of CPU time as its argument says. */
public class Threeway {
	static int hotSixty(int n) {
		int x = n;
		for (int i = 0; i < n; i++)
			x = x * 1664525 + 1013904223;
		return x;
	}

	static int hotThirty(int n) {
		int x = n;
		for (int i = 0; i < n; i++)
			x = x * 1664525 + 1013904223;
		return x;
	}

	static int hotTen(int n) {
		int x = n;
		for (int i = 0; i < n; i++)
			x = x * 1664525 + 1013904223;
		return x;
	}

	static int callSixty(int n) {
		return hotSixty(n) + 1;
	}

	static int callThirty(int n) {
		return hotThirty(n) + 1;
	}

	static int callTen(int n) {
		return hotTen(n) + 1;
	}

	static int rounds(int[] order) {
		int sum = 0;
		for (int which : order) {
			if (which == 0)
				sum += callSixty(20000);
			else if (which == 1)
				sum += callThirty(20000);
			else
				sum += callTen(20000);
		}
		return sum;
	}

	public static void main(String[] args) {
		ThreadMXBean threads = ManagementFactory.getThreadMXBean();
		long end = (long) (Double.parseDouble(args[0]) * 1e9);
		int[] order = {0, 1, 0, 0, 1, 0, 2, 0, 1, 0};
		int sum = 0;
		System.out.println("READY");
		while (threads.getCurrentThreadCpuTime() < end)
			sum += rounds(order);
		if (sum == 42)
			System.out.println(sum);
	}
}
