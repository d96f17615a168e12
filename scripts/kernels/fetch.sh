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

fail() {
	echo "fetch.sh: $1" >&2
	exit 1
}

# lacks FOLDER: which of the image and the modules are not in it.
lacks() {
	local name
	for name in vmlinuz $(printf '%s.ko ' $modules); do
		[ -s "$1/$name" ] || printf '%s ' "$name"
	done
}

# download PACKAGE: into the current folder. Returns 1 if the archive says that it has it no longer, and fails for anything else.
download() {
	local said
	if said=$(LC_ALL=C "$here/apt.sh" "$suite" "$arch" get -qq download "$1" 2>&1); then return; fi
	echo "$said" >&2
	if grep -qE 'Failed to fetch [^ ]+\.deb +404 ' <<<"$said"; then return 1; fi
	fail "downloading $1 failed"
}

gone=3

# extract VERSION: the kernel's image and modules out of its packages, all of them or none. Exits with $gone if the archive has it no
# longer.
extract() {
	local deb name module lacking
	mkdir "$scratch/debs" "$scratch/root" "$scratch/out"
	cd "$scratch/debs"
	# Newer packages keep the image and the modules apart: those that the suite has are the kernel's.
	for name in image binary modules; do
		if [ "$name" = image ] || [ -n "$("$here/apt.sh" "$suite" "$arch" cache pkgnames "linux-$name-$1" | grep -Fx "linux-$name-$1")" ]; then
			download "linux-$name-$1" || exit "$gone"
		fi
	done
	for deb in ./*.deb; do
		dpkg -x "$deb" ../root
	done
	cd "$scratch"
	name=$(find root -type f -name 'vmlinuz*' | sed -n 1p)
	[ -z "$name" ] || mv "$name" out/vmlinuz
	for name in $modules; do
		module=$(find root -name "$name.ko" -o -name "$name.ko.xz" | sed -n 1p)
		case $module in
		*.xz) xz -dc "$module" >"out/$name.ko" ;;
		?*) cp "$module" "out/$name.ko" ;;
		esac
	done
	lacking=$(lacks out)
	[ -z "$lacking" ] || fail "the packages of $1 lack $lacking"
	rm -rf "${cache:?}/$1" # it was not complete
	mv -T out "$cache/$1"
}

mkdir -p "$cache"
scratch=
trap 'rm -rf "$scratch"' EXIT
# The newest may be listed and yet gone from the mirror: then the one before it will do.
for version in $("$here/apt.sh" "$suite" "$arch" cache pkgnames "linux-image-$series" |
	sed -n "s/^linux-image-\([0-9].*-cloud-$arch\)$/\1/p" | sort -Vr); do
	case $version in "$series".*) ;; *) continue ;; esac
	if [ -n "$(lacks "$cache/$version")" ] && [ -z "$(find "$cache" -name "gone-$version" -mtime -7)" ]; then
		scratch=$(mktemp -d "$cache/fetch.XXXXXX")
		set +e # in a condition, set -e would not hold inside of extract either
		(set -e; extract "$version")
		status=$?
		set -e
		rm -rf "$scratch"
		if [ "$status" -eq "$gone" ]; then
			[ ! -e "$cache/$version/vmlinuz" ] || fail "$cache/$version lacks $(lacks "$cache/$version")and the archive has it no longer"
			touch "$cache/gone-$version"
		elif [ "$status" -ne 0 ]; then
			fail "$version cannot be had"
		fi
	fi
	if [ -z "$(lacks "$cache/$version")" ]; then
		echo "$version=$cache/$version/vmlinuz"
		exit 0
	fi
done
fail "no cloud kernel $series for $arch can be had from $suite"
