#!/usr/bin/env bash
# Installs what building and testing need beyond Go, from Debian's archive, and downloads the Go modules; only what is missing.
# Usage: setup.sh [generate|lint|test|browser|debug|edges|mix|languages|kernels]...   (the first four by default)
set -euo pipefail
cd "$(dirname "$0")/.."

there() { # a command, or a file
	case $1 in
	/*) [[ -e $1 ]] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# missing GROUP... prints the packages that one of the groups needs and the machine lacks. Each line of the list: the groups
# that need it, what shows that it is there (a command, or a file), the package.
missing() {
	local groups sign package group
	while read -r groups sign package; do
		for group in "$@"; do
			if [[ ,$groups, == *,$group,* ]] && ! there "$sign"; then
				echo "$package"
				break
			fi
		done
	done <<'LIST'
generate,lint,test  gcc                           gcc
generate,browser    node                          nodejs
generate,browser    npm                           npm
browser             chromium                      chromium
browser             /usr/share/fonts/truetype/liberation fonts-liberation
generate            clang-19                      clang-19
generate            llvm-strip-19                 llvm-19
generate            /usr/include/bpf/bpf_helpers.h libbpf-dev
generate            /usr/include/linux/bpf.h      linux-libc-dev
lint                clang-format-19               clang-format-19
test                g++                           g++
test                llvm-symbolizer-19            llvm-19
test                llvm-dwp-19                   llvm-19
test                dwp                           binutils
test                dwz                           dwz
test                musl-gcc                      musl-tools
test                readelf                       binutils
test                mold                          mold
test                xz                            xz-utils
test                clang                         clang
test                clang-19                      clang-19
test                /usr/lib/llvm-19/lib/clang/19/include/fuzzer libclang-rt-19-dev
test                /usr/lib/llvm-19/bin/ld.lld   lld-19
test                rustc                         rustc
test                node                          nodejs
test                luajit                        luajit
test,mix            javac                         default-jdk-headless
test                aarch64-linux-gnu-gcc         gcc-aarch64-linux-gnu
test                aarch64-linux-gnu-g++         g++-aarch64-linux-gnu
test                qemu-aarch64                  qemu-user
test                /usr/include/stdlib.h         libc6-dev
debug               /usr/share/doc/libc6-dbg      libc6-dbg
debug               /usr/bin/python3-dbg          python3-dbg
debug               /usr/bin/debugperl            perl-debug
debug               debuginfod                    debuginfod
edges               mksquashfs                    squashfs-tools
edges               /usr/include/boost/context    libboost-context-dev
edges               /usr/include/boost/coroutine2 libboost-coroutine-dev
mix                 ffmpeg                        ffmpeg
mix                 7zz                           7zip
mix                 rsync                         rsync
mix                 /usr/bin/convert-im6.q16      imagemagick
mix                 gs                            ghostscript
mix                 nginx                         nginx-light
mix                 haproxy                       haproxy
mix                 wrk                           wrk
mix                 perf                          linux-perf
mix                 /usr/lib/postgresql           postgresql
mix                 redis-server                  redis-server
mix                 redis-benchmark               redis-tools
mix                 memcached                     memcached
mix                 memcslap                      libmemcached-tools
mix                 git                           git
mix                 sqlite3                       sqlite3
mix                 openssl                       openssl
mix                 gpg                           gnupg
mix                 zstd                          zstd
mix                 bzip2                         bzip2
mix                 nasm                          nasm
mix                 /usr/bin/python3              python3
mix                 /usr/bin/perl                 perl
mix                 /usr/lib/python3/dist-packages/django python3-django
mix                 /usr/lib/python3/dist-packages/numpy python3-numpy
mix                 gunicorn                      gunicorn
mix                 /etc/alternatives/uwsgi-plugin-python3 uwsgi-plugin-python3
mix                 /usr/share/java/netty-all.jar libnetty-java
mix                 npm                           npm
mix                 ruby                          ruby
mix                 php                           php-cli
languages           ocamlopt                      ocaml-nox
languages           ldc2                          ldc
languages           gdc                           gdc
languages           gnatmake                      gnat
languages           nim                           nim
languages           valac                         valac
languages           gfortran                      gfortran
languages           crystal                       crystal
languages           fpc                           fp-compiler
languages           ghc                           ghc
languages           gccgo                         gccgo
kernels             qemu-system-x86_64            qemu-system-x86
kernels             qemu-system-aarch64           qemu-system-arm
kernels             busybox                       busybox-static
kernels             cpio                          cpio
LIST
}

check_go() {
	if ! command -v go >/dev/null; then
		echo "setup: Go is missing: install the version that go.mod names, from https://go.dev/dl" >&2
		exit 1
	fi
}

# have_modules DIR tells whether nothing has to be downloaded: all modules are there, or at least those whose packages are used.
have_modules() {
	GOPROXY=off go -C "$1" mod download ||
		{ GOPROXY=off go -C "$1" list -deps -test ./... && GOPROXY=off go -C "$1" list -deps tool; }
} >/dev/null 2>&1

# modules downloads Go's modules here, as the commands that need them do not try again when the network fails.
modules() {
	local dir
	for dir in . internal/tools; do
		if have_modules "$dir"; then continue; fi
		if ! scripts/retry.sh go -C "$dir" mod download; then
			echo "setup: downloading the Go modules of $dir failed; GOPROXY is $(go env GOPROXY)" >&2
			exit 1
		fi
	done
}

# explain MESSAGE fails with what apt-get had to say: it names the mirror or the package.
explain() {
	grep -E '^(E|W|Err)' "$log" >&2 || tail -20 "$log" >&2
	echo "setup: $1" >&2
	exit 1
}

main() {
	check_go
	modules
	local groups=("$@") packages list
	if ((${#groups[@]} == 0)); then groups=(generate lint test browser); fi
	list=$(missing "${groups[@]}")
	if [[ -z $list ]]; then return; fi
	mapfile -t packages <<<"$list"

	if ! command -v apt-get >/dev/null; then
		echo "setup: missing: ${packages[*]} (Debian's names); there is no apt-get here to install them" >&2
		exit 1
	fi
	if ((EUID != 0)); then
		echo "setup: missing: ${packages[*]}; run: sudo apt-get install --no-install-recommends ${packages[*]}" >&2
		exit 1
	fi
	echo "setup: installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	if ! apt-get -o Acquire::Retries=3 update >"$log" 2>&1 ||
		! apt-get -o Acquire::Retries=3 install -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1; then
		explain "installing ${packages[*]} failed"
	fi
	list=$(missing "${groups[@]}")
	[[ -z $list ]] || explain "still missing after the installation: ${list//$'\n'/ }"
}

main "$@"
