#!/usr/bin/env bash
# Runs every benchmark. BENCH chooses by name, COUNT repeats.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t packages < <(grep -rlE '^func Benchmark' --include='*_test.go' . | grep -v '^./\.' | xargs -r -n1 dirname | sort -u)
if ((${#packages[@]} == 0)); then
	echo "bench: no benchmarks" >&2
	exit 1
fi
go test -run '^$' -bench "${BENCH:-.}" -benchmem -count "${COUNT:-1}" -timeout 30m "${packages[@]}"
