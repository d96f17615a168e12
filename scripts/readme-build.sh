#!/usr/bin/env bash
# Builds a collector from the builder configuration that README.md shows, and has it take a configuration of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=.cache/readme
mkdir -p "$dir"
{
	cat <<END
dist:
  module: example.com/readme
  name: readme
  output_path: $PWD/$dir/sources
END
	awk '/scripts\/readme-build.sh/ { marked = 1 } marked && /^```$/ { exit } marked && block { print } marked && /^```yaml$/ { block = 1 }' README.md |
		sed "s|/path/to/clone|$PWD|"
} >"$dir/builder.yaml"
grep -q 'hostprofiles/receiver' "$dir/builder.yaml" || {
	echo "readme-build: README.md has no builder configuration behind its mark" >&2
	exit 1
}
cat >"$dir/config.yaml" <<'END'
receivers: {hostprofiles: {}}
exporters: {top: {}}
service: {pipelines: {profiles: {receivers: [hostprofiles], exporters: [top]}}}
END
echo "readme-build: building a collector as README.md says"
if ! CGO_ENABLED=0 scripts/retry.sh go tool -modfile=internal/tools/go.mod builder --config "$dir/builder.yaml" >"$dir/log" 2>&1; then
	cat "$dir/log" >&2
	exit 1
fi
"$dir/sources/readme" validate --config "$dir/config.yaml"
