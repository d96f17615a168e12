// Functions in functions, of which GCC has no linkage name.
module nested;

__gshared ulong sink;

pragma(inline, false) ulong outer(ulong n)
{
	pragma(inline, false) ulong inner(ulong k) { return sink = k * n; }
	static struct Local
	{
		pragma(inline, false) ulong member(ulong k) { return sink = k * 3; }
	}
	auto literal = (ulong k) { return sink = k + n; };
	Local l;
	return inner(n) + l.member(n) + literal(n);
}

void main(string[] args) { outer(args.length); }
