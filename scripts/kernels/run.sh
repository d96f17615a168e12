#!/bin/bash
# run.sh [-v] [amd64|arm64]... [SUITE[:SERIES]]...: profiles workloads of known truth on Debian's kernels, each in a virtual machine
# (qemu, no KVM needed). Without arguments: both architectures, and the suites below. Needs Debian with apt, and root for
# installing qemu and the cross compiler if they are missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
flags=() archs=() suites=()
for a in "$@"; do
	case $a in
	-*) flags+=("$a") ;;
	amd64 | arm64) archs+=("$a") ;;
	*) suites+=("$a") ;;
	esac
done
[ ${#archs[@]} -gt 0 ] || archs=(amd64 arm64)
# 5.10, 6.1, 6.12, 6.18 and the newest.
[ ${#suites[@]} -gt 0 ] || suites=(bullseye bookworm trixie trixie-backports:6.18 sid)

missing=()
for pair in qemu-system-x86_64:qemu-system-x86 qemu-system-aarch64:qemu-system-arm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu \
	x86_64-linux-gnu-gcc:gcc; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || missing+=(libc6-dev-arm64-cross)
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

status=0
for arch in "${archs[@]}"; do
	kernels=()
	for suite in "${suites[@]}"; do
		kernels+=("$("$here/fetch.sh" "$suite" "$arch")")
	done
	nice go run ./test/kernels "${flags[@]}" -arch "$arch" "${kernels[@]}" || status=1
done
exit $status
