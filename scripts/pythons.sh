#!/usr/bin/env bash
# pythons.sh: unpacks CPython of several Debian suites, each with the libraries that it needs, and prints where: lines "VERSION ROOT". What is
# there already stays if this script is the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
arch=$(dpkg --print-architecture)
dir=$here/../.cache/pythons
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
list=$(sha256sum "$0" | cut -d ' ' -f 1)
exec 9>"$dir/lock"
flock 9 # several tests may want them at a time

# unpack VERSION SUITE PACKAGE...: beside those of the interpreter
unpack() {
	local version=$1 suite=$2 root=$dir/$1 packages
	shift 2
	if [[ $(cat "$root/complete" 2>/dev/null) != "$list" ]]; then
		packages=("python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" libc6 libexpat1 libgcc-s1 zlib1g "$@")
		rm -rf "$root.new" "$root"
		mkdir -p "$root.new/packages"
		(cd "$root.new/packages" && "$here/retry.sh" "$here/kernels/apt.sh" "$suite" "$arch" get -qq download "${packages[@]}" >&2)
		for package in "$root.new"/packages/*.deb; do
			dpkg-deb -x "$package" "$root.new"
		done
		rm -rf "$root.new/packages"
		for folder in lib lib64; do # which base-files brings, where libc6 lies in /usr
			[[ -e $root.new/$folder ]] || ln -s "usr/$folder" "$root.new/$folder"
		done
		echo "$list" >"$root.new/complete"
		mv "$root.new" "$root"
	fi
	echo "$version $root"
}

unpack 3.9 bullseye
unpack 3.11 bookworm
unpack 3.13 trixie
unpack 3.14 sid
unpack 3.15 sid libzstd1
