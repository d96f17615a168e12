#!/usr/bin/env bash
# Builds the collector that builder-config.yaml describes, build/otelcol-hostprofiles, and beside it the command that shows
# what it finds in a terminal, hostprofiles-top; for GOARCH (this machine's by default). OUT names another file for the
# collector. With "top": the command alone.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=.cache/otelcol-hostprofiles # as builder-config.yaml says
out=$PWD/${OUT:-build/otelcol-hostprofiles}

top=$(dirname "$out")/hostprofiles-top
echo "build: compiling ${top#"$PWD"/}"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$top" ./cmd/hostprofiles-top
if [[ ${1:-} == top ]]; then exit; fi

# The builder writes main.go, go.mod and go.sum, which takes a while: only when one of its inputs changed. Those are its
# configuration and the modules that this one's packages use, which go.sum must cover.
inputs=$(
	sha256sum builder-config.yaml internal/tools/go.mod
	go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./receiver ./exporter/... ./distribution/... | sort -u
)
if [[ $(cat "$sources/.inputs" 2>/dev/null) != "$inputs" ]]; then
	mkdir -p "$sources"
	rm -f "$sources/.inputs"
	log=$sources/builder.log
	echo "build: generating the collector's sources"
	if ! scripts/retry.sh go tool -modfile=internal/tools/go.mod builder --skip-compilation --config builder-config.yaml >"$log" 2>&1; then
		cat "$log" >&2
		echo "build: generating the collector's sources failed" >&2
		exit 1
	fi
	echo "$inputs" >"$sources/.inputs"
fi

mkdir -p "$(dirname "$out")"
echo "build: compiling ${out#"$PWD"/}"
cd "$sources"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w" -o "$out" .
