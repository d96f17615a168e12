import java.util.zip.Deflater;

/** Spends its time in native code, which a lambda calls that an inner class's constructor calls, until it is killed. */
public class Native {
	static class Holder {
		Holder(Runnable r) {
			r.run();
		}
	}

	static void compress() {
		byte[] in = new byte[16 << 20], out = new byte[1 << 16];
		for (int i = 0, x = 1; i < in.length; i++) {
			x = x * 1664525 + 1013904223;
			in[i] = (byte) (x >>> 28);
		}
		for (;;) {
			Deflater d = new Deflater(9);
			d.setInput(in);
			d.finish();
			while (!d.finished())
				d.deflate(out);
			d.end();
		}
	}

	public static void main(String[] args) {
		System.out.println("READY");
		new Holder(() -> compress());
	}
}
