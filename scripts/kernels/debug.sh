#!/bin/bash
# debug.sh SUITE ARCH: downloads the debug information of a Debian suite's cloud kernel, some 300 MB, unless the cache has it, and
# prints the folder with its vmlinux, its System.map and a few modules: 700 MB. apt checks the package's checksum and the signature
# above it.
set -euo pipefail
suite=$1 arch=$2
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/kernels
# The meta package depends on one.
package=$("$here/apt.sh" "$suite" "$arch" cache show --no-all-versions "linux-image-cloud-$arch-dbg" |
	sed -n 's/^Depends: *\(linux-image-[^ ,]*-dbg\).*/\1/p')
[ -n "$package" ] || { echo "debug.sh: $suite has no debug information of a cloud kernel for $arch" >&2; exit 1; }
target=$cache/$package
if [ ! -e "$target/vmlinux" ]; then
	mkdir -p "$cache"
	scratch=$(mktemp -d "$cache/debug.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	(cd "$scratch" && "$here/apt.sh" "$suite" "$arch" get -qq download "$package" >&2)
	mkdir "$scratch/root" "$scratch/out"
	dpkg --fsys-tarfile "$scratch"/*.deb |
		tar -x -C "$scratch/root" --wildcards '*/vmlinux-*' '*/System.map-*' '*/wp512.ko*' '*/nf_tables.ko*' '*/xfs.ko*'
	for name in System.map wp512.ko nf_tables.ko xfs.ko vmlinux; do
		mv "$(find "$scratch/root" -type f -name "$name*" | sed -n 1p)" "$scratch/out/$name"
	done
	rm -rf "$target" # what an older script may have left of it
	mv -T "$scratch/out" "$target"
fi
# The version that the suite had before goes.
name=$cache/debug-$suite-$arch
before=$(cat "$name" 2>/dev/null || true)
if [ "$before" != "$package" ]; then
	case $before in linux-image-*-dbg) rm -rf "${cache:?}/$before" ;; esac
	echo "$package" >"$name"
fi
echo "$target"
