#!/usr/bin/env bash
# corpus.sh ARCH DIR: unpacks Debian packages of an architecture with many ELF files, of many compilers, into DIR, for tests that
# compare unwind tables with what other tools say. Nothing of them is run. What is there already stays if this script is the same.
set -euo pipefail
arch=$1 dir=$2
packages=(
	bash binutils-common coreutils dash findutils gdb-minimal git gpg grep gzip libc6 libc-bin libcrypt1 libcurl4t64 libdb5.3t64 libffi8 libgcc-s1
	libglib2.0-0t64 libgmp10 libgnutls30t64 libgomp1 libicu76 libjemalloc2 libluajit-5.1-2 libnode115 libopus0 libperl5.40 libpq5
	libpython3.13-minimal libpython3.13-stdlib libruby3.3 libsqlite3-0 libssl3t64 libstd-rust-dev libstdc++6 libsystemd-shared libtsan2 libuv1t64
	libx264-164 libx265-215 libxml2 libzstd1 mawk musl ocaml-base openssl openssh-client openssh-server passwd perl-base php8.4-cli
	postgresql-17 python3.13-minimal redis-server redis-tools ripgrep rsync sed sqlite3 systemd tar util-linux vim xz-utils zstd
)
list=$(sha256sum "$0" | cut -d ' ' -f 1)
apt=$(cd "$(dirname "$0")" && pwd)/kernels/apt.sh
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9 # several tests may want them at a time
[[ $(cat "$dir/complete" 2>/dev/null) != "$list" ]] || exit 0
scratch=$dir.new
rm -rf "$scratch"
mkdir -p "$scratch/packages" "$scratch/root"
(cd "$scratch/packages" && "$apt" trixie "$arch" get -qq download "${packages[@]}" >&2)
for package in "$scratch"/packages/*.deb; do
	dpkg-deb -x "$package" "$scratch/root"
done
rm -rf "$scratch/packages"
echo "$list" >"$scratch/complete"
rm -rf "$dir"
mv "$scratch" "$dir"
