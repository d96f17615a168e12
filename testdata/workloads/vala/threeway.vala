// threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its argument
// says. The thirty's chain goes through an interface and a closure.
namespace Burning {
	[CCode (cname = "clock", cheader_filename = "time.h")]
	extern long clock ();

	delegate uint64 Work (uint64 n);

	interface Burner : Object {
		public abstract uint64 burn (uint64 n);
	}

	uint64 hot_sixty (uint64 n) {
		uint64 x = n;
		for (uint64 i = n; i > 0; i--)
			x = x * 6364136223846793005 + 60;
		return x;
	}

	uint64 hot_thirty (uint64 n) {
		uint64 x = n;
		for (uint64 i = n; i > 0; i--)
			x = x * 6364136223846793005 + 30;
		return x;
	}

	uint64 hot_ten (uint64 n) {
		uint64 x = n;
		for (uint64 i = n; i > 0; i--)
			x = x * 6364136223846793005 + 10;
		return x;
	}

	uint64 sixty_two (uint64 n) {
		return hot_sixty (n) + 1;
	}

	uint64 sixty_one (uint64 n) {
		return sixty_two (n) + 1;
	}

	uint64 through (Work work, uint64 n) {
		return work (n) + 1;
	}

	class Thirty : Object, Burner {
		public uint64 extra = 1;

		public uint64 burn (uint64 n) {
			return through ((m) => hot_thirty (m) + extra, n) + 1;
		}
	}

	uint64 ten (uint64 n) {
		return hot_ten (n) + 1;
	}

	uint64 rounds (Burner thirty, uint64 slice) {
		uint64 sum = 0;
		int order[] = { 0, 1, 0, 0, 1, 0, 2, 0, 1, 0 };
		foreach (int which in order) {
			if (which == 0)
				sum += sixty_one (slice);
			else if (which == 1)
				sum += thirty.burn (slice);
			else
				sum += ten (slice);
		}
		return sum;
	}

	int main (string[] args) {
		double end = double.parse (args[2]) * 1e6;
		stdout.printf ("READY\n");
		stdout.flush ();
		Burner thirty = new Thirty ();
		uint64 total = 0;
		while ((double) clock () < end)
			total += rounds (thirty, 12000);
		stdout.printf ("{\"sum\":%d}\n", (int) (total & 1));
		return 0;
	}
}
