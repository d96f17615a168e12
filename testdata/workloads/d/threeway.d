/// threeway burns 60/30/10 % of its CPU at the ends of chains of template instances, virtual methods and delegates, for as many
/// seconds of CPU time as its argument says.
module threeway;

import core.stdc.time : clock, CLOCKS_PER_SEC;
import std.conv : to;
import std.stdio : stdout, writeln;

pragma(inline, false) ulong hotSixty(ulong n)
{
	ulong x = n;
	for (ulong i = n; i; i--)
		x = x * 6364136223846793005 + 60;
	return x;
}

pragma(inline, false) ulong hotThirty(ulong n)
{
	ulong x = n;
	for (ulong i = n; i; i--)
		x = x * 6364136223846793005 + 30;
	return x;
}

pragma(inline, false) ulong hotTen(ulong n)
{
	ulong x = n;
	for (ulong i = n; i; i--)
		x = x * 6364136223846793005 + 10;
	return x;
}

struct Level(T, int n)
{
	T value;
	pragma(inline, false) ulong run(ulong k)
	{
		static if (n == 0)
			return hotSixty(k) + 1;
		else
		{
			auto next = Level!(T, n - 1)(value);
			return next.run(k) + n;
		}
	}
}

interface Burner
{
	ulong burn(const(char)[] why, ulong n);
}

class Thirty : Burner
{
	override ulong burn(const(char)[] why, ulong n)
	{
		scope (exit)
			count += why.length;
		return hotThirty(n) + 1;
	}

	size_t count;
}

pragma(inline, false) ulong through(scope ulong delegate(ulong) f, ulong n)
{
	return f(n) + 1;
}

pragma(inline, false) ulong ten(ulong n)
{
	const ulong k = n & 1;
	return through((ulong m) => hotTen(m) + k, n);
}

pragma(inline, false) ulong rounds(Burner thirty, ulong slice)
{
	ulong sum;
	foreach (which; [0, 1, 0, 0, 1, 0, 2, 0, 1, 0])
	{
		if (which == 0)
			sum += Level!(double, 3)(1).run(slice);
		else if (which == 1)
			sum += thirty.burn("thirty", slice);
		else
			sum += ten(slice);
	}
	return sum;
}

void main(string[] args)
{
	const end = args[2].to!double * CLOCKS_PER_SEC;
	writeln("READY");
	stdout.flush();
	Burner thirty = new Thirty;
	ulong sum;
	while (clock() < end)
		sum += rounds(thirty, 12_000);
	writeln(`{"sum":`, sum & 1, "}");
}
