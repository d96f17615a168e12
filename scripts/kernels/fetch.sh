#!/bin/bash
# fetch.sh SUITE[:X.Y] ARCH: downloads the newest cloud kernel of a Debian suite (of a series X.Y) unless the cache has it,
# and prints VERSION=PATH-OF-ITS-IMAGE, next to which are the modules that guests load. apt checks the packages' checksums and the signature above them.
set -euo pipefail
suite=${1%%:*} arch=$2
series=${1#"$suite"}
series=${series#:}
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache/kernels
if [ -z "$series" ]; then
	# The meta package depends on the suite's newest kernel.
	series=$("$here/apt.sh" "$suite" "$arch" cache show --no-all-versions "linux-image-cloud-$arch" |
		sed -n 's/^Depends:.*linux-image-\([0-9]*\.[0-9]*\).*/\1/p')
fi

# What guests load: an interface to the kernel's hashes, and one that takes its time (test/kernels/guest/modules.go).
modules="af_alg algif_hash wp512 rmd160"

# extract VERSION: the kernel's image and modules out of its packages.
extract() {
	local scratch deb found name module
	scratch=$(mktemp -d "$cache/fetch.XXXXXX")
	found=$(
		cd "$scratch"
		"$here/apt.sh" "$suite" "$arch" get -qq download "linux-image-$1" >&2 || exit 0
		# Newer packages keep the image and the modules apart.
		for name in binary modules; do
			"$here/apt.sh" "$suite" "$arch" get -qq download "linux-$name-$1" >/dev/null 2>&1 || true
		done
		for deb in ./*.deb; do
			dpkg -x "$deb" root
		done
		find "$PWD/root" -type f -name 'vmlinuz*' | sed -n 1p
	)
	if [ -n "$found" ]; then
		mkdir -p "$cache/$1"
		for name in $modules; do
			module=$(find "$scratch/root" -name "$name.ko" -o -name "$name.ko.xz" | sed -n 1p)
			case $module in
			*.xz) xz -dc "$module" >"$cache/$1/$name.ko" ;;
			?*) cp "$module" "$cache/$1/$name.ko" ;;
			esac
		done
		mv "$found" "$cache/$1/vmlinuz"
	else
		touch "$cache/gone-$1"
	fi
	rm -rf "$scratch"
}

mkdir -p "$cache"
# The newest may be listed and yet gone from the mirror: then the one before it will do.
for version in $("$here/apt.sh" "$suite" "$arch" cache pkgnames "linux-image-$series" |
	sed -n "s/^linux-image-\([0-9].*-cloud-$arch\)$/\1/p" | sort -Vr); do
	case $version in "$series".*) ;; *) continue ;; esac
	if ! { [ -e "$cache/$version/vmlinuz" ] && [ -e "$cache/$version/wp512.ko" ]; } && [ -z "$(find "$cache" -name "gone-$version" -mtime -7)" ]; then
		extract "$version"
	fi
	if [ -e "$cache/$version/vmlinuz" ]; then
		echo "$version=$cache/$version/vmlinuz"
		exit 0
	fi
done
echo "fetch.sh: no cloud kernel $series for $arch can be had from $suite" >&2
exit 1
