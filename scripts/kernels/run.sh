#!/bin/bash
# run.sh [amd64|arm64] [SUITE[:SERIES]]...: profiles workloads of known truth on Debian's kernels, each in a virtual machine
# (qemu, no KVM needed). Without arguments: both architectures and the suites that the test names. Needs Debian with apt,
# and root to install qemu and the cross compiler if they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=amd64,arm64
case ${1:-} in
amd64 | arm64)
	arch=$1
	shift
	;;
esac
suites=$(IFS=,; echo "$*")

missing=()
for pair in qemu-system-x86_64:qemu-system-x86 qemu-system-aarch64:qemu-system-arm \
	aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu x86_64-linux-gnu-gcc:gcc; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || missing+=(libc6-dev-arm64-cross)
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
exec nice go test -v -count=1 -timeout 3h ./test/kernels -arch "$arch" ${suites:+-suites "$suites"}
