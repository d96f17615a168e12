<?php
// Lets PCRE's JIT compiled code work, for as many seconds of CPU time as its argument says.

function used(): float {
	$u = getrusage();
	return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6;
}

$words = [];
for ($i = 0; $i < 20000; $i++) $words[] = base_convert((string)($i * 7919 % 100003), 10, 7);
$text = implode(',', $words);
$patterns = ['/1[0-3]+/', '/(?:[0-6]*2)+5/', '/(\d)\1/', '/\b(?=\d*4)[0-4]+\b/', '/(?:5|4\d|3\d\d)+6,/'];
$end = (float)$argv[1];
echo "READY\n";
while (used() < $end) foreach ($patterns as $p) preg_match_all($p, $text);
