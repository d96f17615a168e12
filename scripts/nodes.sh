#!/usr/bin/env bash
# nodes.sh: unpacks Node.js of several versions from the npm registry, and prints where: lines "MAJOR PATH". What is there already stays.
# Usage: nodes.sh [MAJOR]...   (all by default)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case $(uname -m) in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
esac
. "$here/cachedir.sh" nodes

wanted=" $* "

# unpack MAJOR VERSION
unpack() {
	if [[ $wanted != "  " && $wanted != *" $1 "* ]]; then return; fi
	local root=$dir/$2
	if [[ ! -e $root/complete ]]; then
		rm -rf "$root.new" "$root"
		mkdir -p "$root.new"
		(cd "$root.new" && "$here/retry.sh" npm pack --silent "node-linux-$arch@$2" >&2 && tar -xzf ./*.tgz && mv package/bin/node . && rm -rf package ./*.tgz)
		touch "$root.new/complete"
		mv "$root.new" "$root"
	fi
	echo "$1 $root/node"
}

unpack 12 12.22.12
unpack 14 14.21.3
unpack 16 16.20.2
unpack 18 18.20.8
unpack 20 20.20.2
unpack 22 22.23.3
unpack 24 24.21.0
unpack 26 26.10.0
