#!/usr/bin/env bash
# debroot.sh ROOT SUITE[:ARCH] PACKAGE...: unpacks packages of any Debian suite into a folder, to be chroot's. No maintainer's script is run,
# and no dependency followed. What is there already stays, if it is of the same call and this script is the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$1 suite=${2%%:*} arch=$(dpkg --print-architecture)
if [[ $2 == *:* ]]; then arch=${2##*:}; fi
shift 2
made=$(sha256sum "$0" | cut -d ' ' -f 1)" $suite $arch $*"
if [[ $(cat "$root/complete" 2>/dev/null) == "$made" ]]; then exit; fi
rm -rf "$root.new"
mkdir -p "$root.new/packages"
(cd "$root.new/packages" && "$here/retry.sh" "$here/kernels/apt.sh" "$suite" "$arch" get -qq download "$@" >&2)
for package in "$root.new"/packages/*.deb; do
	dpkg-deb -x "$package" "$root.new"
done
rm -rf "$root.new/packages"
for folder in lib lib64; do # which base-files brings, where libc6 lies in /usr
	[[ -e $root.new/$folder ]] || ln -s "usr/$folder" "$root.new/$folder"
done
mkdir -p "$root.new/proc" "$root.new/tmp"
echo "$made" >"$root.new/complete"
rm -rf "$root"
mv "$root.new" "$root"
