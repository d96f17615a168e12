#!/usr/bin/env bash
# Generates what is generated. With "check": fails if that changes anything, and leaves the new files there.
set -euo pipefail
cd "$(dirname "$0")/.."

# What generators write. The list is by name, since that is how the generators name their files, and by folder where all of it
# is generated.
generated() {
	find receiver exporter internal \( -name 'generated_*.go' -o -name 'config.schema.json' -o -name documentation.md \
		-o -path 'internal/ebpf/abi/*' -o -path 'exporter/flamegraph/internal/assets/dist/*' \) -type f -print0 | sort -z
}

sums() { generated | xargs -0 sha256sum; }

before=$(sums)
go generate ./...
scripts/web.sh build
if [[ ${1:-} == check ]] && ! diff <(echo "$before") <(sums); then
	echo "generate: the files above are not what their sources generate; they are now: commit them" >&2
	exit 1
fi
