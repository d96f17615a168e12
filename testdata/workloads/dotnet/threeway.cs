using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;

/// Burns 60/30/10 % of its CPU in three methods, for as many seconds of CPU time as its argument says.
static class Threeway
{
	[MethodImpl(MethodImplOptions.NoInlining)]
	static int HotSixty(int n)
	{
		int x = n;
		for (int i = 0; i < n; i++) x = x * 1664525 + 1013904223;
		return x;
	}

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int HotThirty(int n)
	{
		int x = n;
		for (int i = 0; i < n; i++) x = x * 1664525 + 1013904223;
		return x;
	}

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int HotTen(int n)
	{
		int x = n;
		for (int i = 0; i < n; i++) x = x * 1664525 + 1013904223;
		return x;
	}

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int CallSixty(int n) { return HotSixty(n) + 1; }

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int CallThirty(int n) { return HotThirty(n) + 1; }

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int CallTen(int n) { return HotTen(n) + 1; }

	[MethodImpl(MethodImplOptions.NoInlining)]
	static int Rounds(int[] order)
	{
		int sum = 0;
		foreach (int which in order)
		{
			if (which == 0) sum += CallSixty(20000);
			else if (which == 1) sum += CallThirty(20000);
			else sum += CallTen(20000);
		}
		return sum;
	}

	static int Main(string[] args)
	{
		double end = double.Parse(args[0]);
		int[] order = { 0, 1, 0, 0, 1, 0, 2, 0, 1, 0 };
		int sum = 0;
		Console.Out.Write("READY\n");
		Console.Out.Flush();
		while (Process.GetCurrentProcess().TotalProcessorTime.TotalSeconds < end)
			for (int i = 0; i < 10; i++) sum += Rounds(order);
		return sum == 42 ? 1 : 0;
	}
}
