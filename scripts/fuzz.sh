#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (20s). With "budget SECONDS": for as long as all of them together take that long, at
# most 20 s each. Prints a line per target, and the output of those that fail.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Names of targets stand on lines of their own, then the line of their package. Only packages that have targets are
# built.
mapfile -t packages < <(grep -rlE '^func Fuzz' --include='*_test.go' . | grep -v '^./\.' | xargs -r -n1 dirname | sort -u)
if ((${#packages[@]} == 0)); then
	echo "fuzz: no targets" >&2
	exit 1
fi
go test -list '^Fuzz' "${packages[@]}" | awk '/^Fuzz/ {t[n++]=$1} /^ok/ {for (i=0; i<n; i++) print $2, t[i]; n=0}' >"$work/targets"
count=$(wc -l <"$work/targets")
if ((count == 0)); then
	echo "fuzz: listing the targets failed" >&2
	exit 1
fi

time=${FUZZTIME:-20s}
if [[ ${1:-} == budget ]]; then
	# Some 2 s of a target's share go into starting it.
	seconds=$(($2 * jobs / count - 2))
	((seconds <= 20)) || seconds=20
	((seconds >= 1)) || seconds=1
	time=${seconds}s
fi
echo "fuzz: $count targets, $time each"

one() { # WORK TIME PACKAGE TARGET
	local log=$1/$4.${3//\//_}
	# Minimizing what is new would take up all the time, as it may take a minute for each input.
	# A target that has not ended long after its time hangs: that is a finding too.
	if nice go test -run '^$' -fuzz "^$4\$" -fuzztime "$2" -fuzzminimizetime 20x -parallel 1 -timeout 5m "$3" >"$log" 2>&1; then
		echo "ok  $3 $4 $(grep -oE 'execs: [0-9]+' "$log" | tail -1)"
	elif grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'panic|hung|Failing input|_test\.go:' "$log"; then
		# The time was up while Go ran the inputs that it had kept, or was between two: it calls that a failure. An input that
		# fails is written to a file, and one that hangs is called hung.
		echo "ok  $3 $4 $(grep -oE 'execs: [0-9]+|coverage: [0-9]+/[0-9]+' "$log" | tail -1) when the time was up"
	else
		echo "FAIL $3 $4"
		cat "$log"
		touch "$1/failed"
	fi
}
export -f one
xargs -P "$jobs" -L 1 bash -c 'one "$@"' one "$work" "$time" <"$work/targets"
[[ ! -e $work/failed ]]
