#!/usr/bin/env bash
# pythons.sh: unpacks CPython of several Debian suites, each with the libraries that it needs, and prints where: lines "VERSION ROOT".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cachedir.sh" pythons

# unpack VERSION SUITE PACKAGE...: beside those of the interpreter
unpack() {
	local version=$1 suite=$2
	shift 2
	"$here/debroot.sh" "$dir/$version" "$suite" "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" \
		libc6 libexpat1 libgcc-s1 zlib1g "$@"
	echo "$version $dir/$version"
}

unpack 2.7 bullseye
unpack 3.9 bullseye
unpack 3.11 bookworm
unpack 3.13 trixie
unpack 3.14 sid
unpack 3.15 sid libzstd1
