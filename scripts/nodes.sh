#!/usr/bin/env bash
# nodes.sh: unpacks Node.js of several versions from the npm registry, and prints where: lines "MAJOR PATH". What is there already stays.
# Usage: nodes.sh [MAJOR|deno]...   (every Node.js by default; of the architecture in NODE_ARCH, x64 or arm64, this machine's by default)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case $(uname -m) in
x86_64) own=x64 ;;
aarch64) own=arm64 ;;
esac
arch=${NODE_ARCH:-$own}
. "$here/cachedir.sh" nodes

wanted=" $* "

# unpack MAJOR VERSION [PACKAGE FILE]
unpack() {
	local package=${3:-node-linux-$arch} file=${4:-bin/node}
	if [[ $wanted != "  " && $wanted != *" $1 "* ]]; then return; fi
	local root=$dir/$2
	if [[ $arch != "$own" ]]; then root+=-$arch; fi
	if [[ ! -e $root/complete ]]; then
		rm -rf "$root.new" "$root"
		mkdir -p "$root.new"
		(cd "$root.new" && "$here/retry.sh" npm pack --silent "$package@$2" >&2 && tar -xzf ./*.tgz && mv "package/$file" . && rm -rf package ./*.tgz)
		touch "$root.new/complete"
		mv "$root.new" "$root"
	fi
	echo "$1 $root/${file##*/}"
}

unpack 12 12.22.12
unpack 14 14.21.3
unpack 16 16.20.2
unpack 18 18.20.8
unpack 20 20.20.2
unpack 22 22.23.3
unpack 24 24.21.0
unpack 26 26.10.0
if [[ $wanted == *" deno "* ]]; then unpack deno 2.9.6 "@deno/linux-$arch-glibc" deno; fi
