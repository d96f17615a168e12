#!/usr/bin/env bash
# debnodes.sh: unpacks Node.js as Debian's suites have it, in a stripped library, each with the libraries that it needs, and prints where:
# lines "MAJOR ROOT".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cachedir.sh" debnodes

# unpack MAJOR SUITE PACKAGE...: beside those that all need
unpack() {
	local version=$1 suite=$2
	shift 2
	"$here/debroot.sh" "$dir/$version" "$suite" nodejs libbrotli1 libc6 libgcc-s1 libnghttp2-14 libstdc++6 zlib1g \
		node-acorn node-cjs-module-lexer node-undici "$@"
	echo "$version $dir/$version"
}

unpack 18 bookworm libnode108 libc-ares2 libicu72 libssl3 libuv1
unpack 20 trixie libnode115 libcares2 libicu76 libssl3t64 libuv1t64 libzstd1 node-minimatch
