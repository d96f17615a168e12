#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (20s; a number of seconds): those in Go, and the C code of bpf/host under libFuzzer, once for each variant and
# architecture. With "walks": the C code alone. Prints a line per target, and the output of those that fail.
set -euo pipefail
cd "$(dirname "$0")/.."

case $#:${1:-} in
0: | 1:walks) ;;
*)
	echo "fuzz: unknown: $*; usage: fuzz.sh [walks]" >&2
	exit 2
	;;
esac
time=${FUZZTIME:-20s}
if [[ ! $time =~ ^[1-9][0-9]*s$ ]]; then # what both fuzzers can be told
	echo "fuzz: FUZZTIME is $time, not a number of seconds such as 20s" >&2
	exit 2
fi

# A target has one worker, which waits for its coordinator after each input, and a package's program for its linker. A job
# may take a GiB.
jobs=$(($(nproc) * 5 / 2))
room=$(($(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo) >> 20))
if ((jobs > room)); then jobs=$((room > 1 ? room : 1)); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

packages=()
if [[ ${1:-} != walks ]]; then
	# Those with most targets first: all of a package's run one after the other.
	mapfile -t packages < <(grep -rcE '^func Fuzz' --include='*_test.go' . | awk -F: '$2 && $1 !~ /^.\/\./ {sub("/[^/]*$", "", $1); n[$1] += $2}
		END {for (p in n) print n[p], p}' | sort -k1,1nr -k2 | cut -d' ' -f2)
	if ((${#packages[@]} == 0)); then
		echo "fuzz: no targets" >&2
		exit 1
	fi
fi

walks=(LOOP-x86 LOOP-arm64 TAIL-x86 TAIL-arm64)
echo "fuzz: targets of ${#packages[@]} packages, and ${#walks[@]} of the C code, $time each"

package() { # WORK TIME PACKAGE
	local name=${3//[\/.]/_} targets
	local program=$1/$name.test log=$1/$name
	# Several packages are compiled at once: each has two compilers.
	if ! nice go test -c -p 2 -fuzz=. -o "$program" "$3" >"$log" 2>&1 || ! targets=$(cd "$3" && "$program" -test.list '^Fuzz' 2>>"$log") || [[ -z $targets ]]; then
		echo "FAIL $3"
		cat "$log"
		touch "$1/failed"
		return
	fi
	for target in $targets; do
		one "$1" "$2" "$3" "$target" "$program"
	done
	rm "$program"
}

one() { # WORK TIME PACKAGE TARGET PROGRAM
	local log=$1/$4.${3//[\/.]/_}
	# Minimizing what is new would take up all the time, as it may take a minute for each input.
	# A target that has not ended long after its time hangs: that is a finding too.
	if (cd "$3" && nice "$5" -test.run '^$' -test.fuzz "^$4\$" -test.fuzztime "$2" -test.fuzzminimizetime 20x -test.parallel 1 -test.timeout 5m \
		-test.paniconexit0 -test.fuzzcachedir "$cache/${3#./}") >"$log" 2>&1; then
		echo "ok  ${3#./} $4 $(grep -oE 'execs: [0-9]+' "$log" | tail -1)"
	elif grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'panic|hung|Failing input|_test\.go:' "$log"; then
		# The time was up while Go ran the inputs that it had kept, or was between two: it calls that a failure. An input that
		# fails is written to a file, and one that hangs is called hung.
		echo "ok  ${3#./} $4 $(grep -oE 'execs: [0-9]+|coverage: [0-9]+/[0-9]+' "$log" | tail -1) when the time was up"
	else
		echo "FAIL ${3#./} $4"
		cat "$log"
		touch "$1/failed"
	fi
}

# walk runs the host build of the BPF programs on hostile maps, registers and memory (bpf/host/fuzz.c).
walk() { # WORK TIME VARIANT-ARCHITECTURE
	local log=$1/walk.$3 program=$1/walk-$3 corpus=$1/corpus-$3 flags
	flags=(
		-std=gnu11 -O1 -g -Wall -Wextra -Werror -Wno-attributes -Wno-unknown-attributes -Wno-unused-parameter -Wno-sign-compare
		-fsanitize=fuzzer,address,undefined -fno-sanitize=function -fno-sanitize-recover=all -fstrict-flex-arrays=3
		-DHOSTPROFILES_HOST "-DVARIANT_${3%-*}" "-D__TARGET_ARCH_${3#*-}"
	)
	mkdir "$corpus"
	# Looking for leaks at the end takes ptrace, which containers forbid. A new input goes to the first folder.
	if clang-19 "${flags[@]}" -o "$program" bpf/host/fuzz.c >"$log" 2>&1 &&
		ASAN_OPTIONS=detect_leaks=0 nice "$program" -max_total_time="${2%s}" -max_len=10000 -len_control=0 -timeout=20 -rss_limit_mb=1024 \
			-print_final_stats=1 -artifact_prefix="$1/" "$corpus" testdata/fuzz/walk >>"$log" 2>&1; then
		echo "ok  bpf/host $3 execs: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log"), $(grep -oE ' cov: [0-9]+' "$log" | tail -1)"
	else
		echo "FAIL bpf/host $3"
		grep -vE '^#[0-9]+.*(NEW|REDUCE|pulse)' "$log" # the input that fails stands there in base64
		touch "$1/failed"
	fi
}
export -f one package walk
# Where go test keeps what it found.
cache=$(go env GOCACHE)/fuzz/$(go list -m)
export cache
printf '%s\n' "${walks[@]}" | xargs -P "$jobs" -L 1 bash -c 'walk "$@"' walk "$work" "$time"
((${#packages[@]} == 0)) || printf '%s\n' "${packages[@]}" | xargs -P "$jobs" -L 1 bash -c 'package "$@"' package "$work" "$time"
[[ ! -e $work/failed ]]
