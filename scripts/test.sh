#!/usr/bin/env bash
# Runs checks stage by stage and says how long each took. The last line counts the tests, or names the stage that failed.
# Usage: test.sh [full|unit|e2e|browser|kernels]
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p .cache
counts=.cache/test-counts
: >"$counts"
current=start
begin=$SECONDS

stage() { # NAME COMMAND...
	current=$1
	local started=$SECONDS
	echo "== $1"
	shift
	"$@"
	echo "== $current: $((SECONDS - started)) s"
}

finish() {
	local status=$?
	local passed=0 failed=0 skipped=0 p f s
	while read -r p f s; do
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	done <"$counts"
	echo "== all: $((SECONDS - begin)) s"
	if ((status != 0)); then
		((failed > 0)) || failed=1
		echo "FAIL: stage $current"
	fi
	echo "$passed passed, $failed failed, $skipped skipped" | tee .cache/test-result
}
trap finish EXIT

# gotest runs go test and keeps the counts.
gotest() {
	local log=.cache/test-summary status=0
	go test "$@" 2>&1 | "$summary" | tee "$log" || status=$?
	sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$log" | tail -1 >>"$counts"
	return $status
}

build_summary() {
	summary=$PWD/.cache/summary
	(cd internal/tools && go build -buildvcs=false -o "$summary" ./summary)
}

packages() { go list ./... | grep -v '/test/'; }

# unit leaves vet out: lint has done that.
unit() {
	local list limit=10m
	if [[ -n ${HOSTPROFILES_TEST_FULL:-} ]]; then limit=40m; fi
	mapfile -t list < <(packages)
	gotest -json -count=1 -vet=off "$@" -timeout "$limit" "${list[@]}"
	gotest -C internal/tools -json -count=1 ./...
}

fuzz() {
	local log=.cache/fuzz-summary status=0
	scripts/fuzz.sh "$@" | tee "$log" || status=$?
	echo "$(grep -c '^ok ' "$log") $(grep -c '^FAIL ' "$log") 0" >>"$counts"
	return $status
}

# examples shows that the collector takes every configuration in examples/. None of the endpoints needs to exist.
examples() {
	local file passed=0
	for file in examples/*.yaml; do
		echo "$file"
		KUBE_NODE_NAME=node OTLP_ENDPOINT=localhost:4317 OTLP_HTTP_ENDPOINT=http://localhost:4318 VIEW_USER=me VIEW_PASSWORD=secret \
			build/otelcol-hostprofiles validate --config "$file"
		passed=$((passed + 1))
	done
	echo "$passed 0 0" >>"$counts"
}

e2e() {
	local limit=30m
	if [[ -n ${HOSTPROFILES_TEST_FULL:-} ]]; then limit=50m; fi
	scripts/build.sh
	examples
	scripts/readme-build.sh
	echo "1 0 0" >>"$counts"
	# One package at a time: what they measure is the whole host.
	gotest -json -count=1 -p 1 -timeout "$limit" ./test/e2e/...
}

# web checks the page's sources and runs their own tests, which have a collector of their own making.
web() {
	local log=.cache/web-summary status=0
	scripts/web.sh check
	scripts/web.sh test 2>&1 | tee "$log" || status=$?
	# The report of node --test ends with lines as "ℹ pass 12". What neither passed nor failed was left out.
	awk '$1 == "ℹ" { n[$2] = $3 } END { failed = n["fail"] + n["cancelled"]; print n["pass"] + 0, failed, n["tests"] - n["pass"] - failed }' \
		"$log" >>"$counts"
	return $status
}

browser() {
	scripts/web.sh install
	scripts/build.sh
	local status=0
	gotest -json -count=1 -timeout 20m ./test/browser || status=$?
	echo "screenshots: $PWD/.cache/screenshots"
	((status != 0)) || cat .cache/screenshots/*/times.txt
	return $status
}

kernels() {
	# Twenty machines of at most machineTimeout each (five kernels, two architectures, two clocks), and what is downloaded.
	gotest -json -count=1 -p 1 -timeout 3h ./test/kernels/...
}

case ${1:-} in
"")
	stage setup scripts/setup.sh
	stage generate scripts/generate.sh check
	stage lint scripts/lint.sh
	build_summary
	stage unit unit
	stage fuzz fuzz
	stage e2e e2e
	stage web web
	stage browser browser
	;;
full)
	export HOSTPROFILES_TEST_FULL=1 # tests that take minutes, or download much
	stage setup scripts/setup.sh generate lint test browser debug edges mix languages kernels
	stage generate scripts/generate.sh check
	stage lint scripts/lint.sh
	build_summary
	stage race unit -race
	FUZZTIME=${FUZZTIME:-60s} stage fuzz fuzz
	stage e2e e2e
	stage web web
	stage browser browser
	stage kernels kernels
	;;
unit)
	stage setup scripts/setup.sh test
	build_summary
	stage unit unit
	;;
e2e)
	stage setup scripts/setup.sh test
	build_summary
	stage e2e e2e
	;;
browser)
	stage setup scripts/setup.sh test browser ${HOSTPROFILES_TEST_FULL:+mix}
	build_summary
	stage web web
	stage browser browser
	;;
kernels)
	stage setup scripts/setup.sh generate test kernels
	build_summary
	stage kernels kernels
	;;
*)
	echo "test: unknown: $1" >&2
	exit 2
	;;
esac
