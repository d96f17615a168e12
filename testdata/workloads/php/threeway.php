<?php
// Burns 60/30/10 % of its CPU in three functions, for as many seconds of CPU time as its argument says.

function hotSixty(int $n): int {
	$x = $n;
	for ($i = 0; $i < $n; $i++) $x = ($x * 1664525 + 1013904223) & 0xffffffff;
	return $x;
}
function hotThirty(int $n): int {
	$x = $n;
	for ($i = 0; $i < $n; $i++) $x = ($x * 1664525 + 1013904223) & 0xffffffff;
	return $x;
}
function hotTen(int $n): int {
	$x = $n;
	for ($i = 0; $i < $n; $i++) $x = ($x * 1664525 + 1013904223) & 0xffffffff;
	return $x;
}

function callSixty(int $n): int { return hotSixty($n) + 1; }
function callThirty(int $n): int { return hotThirty($n) + 1; }
function callTen(int $n): int { return hotTen($n) + 1; }

function rounds(array $order): int {
	$sum = 0;
	foreach ($order as $which) {
		if ($which === 0) $sum += callSixty(20000);
		elseif ($which === 1) $sum += callThirty(20000);
		else $sum += callTen(20000);
	}
	return $sum;
}

function used(): float {
	$u = getrusage();
	return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6;
}

$end = (float)$argv[1];
echo "READY\n";
$order = [0, 1, 0, 0, 1, 0, 2, 0, 1, 0];
while (used() < $end) rounds($order);
