#!/usr/bin/env bash
# Formatting and static analysis of everything that people write.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
fail() {
	echo "lint: $1" >&2
	failed=1
}

unformatted=$(find . -path ./.git -prune -o -path ./.cache -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)
[[ -z $unformatted ]] || fail "not gofmt'ed: $unformatted"

# Both architectures: files with build constraints would escape otherwise. arm64 without cgo: the C compiler is this
# machine's.
go vet ./... || fail "go vet"
GOARCH=arm64 CGO_ENABLED=0 go vet ./... || fail "go vet on arm64"
go tool -modfile=internal/tools/go.mod staticcheck ./... || fail "staticcheck"
(cd internal/tools && go vet ./...) || fail "go vet of internal/tools"

find bpf -name '*.[ch]' -print0 | xargs -0 --no-run-if-empty clang-format-19 --dry-run -Werror || fail "clang-format"
for script in scripts/*.sh scripts/kernels/*.sh .ci/run; do
	bash -n "$script" || fail "$script"
done
exit $failed
