#!/usr/bin/env bash
# npmci.sh SOURCE TARGET: installs what the lock file of the folder SOURCE names into the folder TARGET, unless it is there. Fails with
# npm's reasons.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$1 target=$2
inputs=$(cd "$source" && sha256sum package.json package-lock.json .npmrc)
if [[ $(cat "$target/.inputs" 2>/dev/null) == "$inputs" ]]; then exit; fi
if ! command -v npm >/dev/null; then
	echo "npmci: npm is missing (scripts/setup.sh installs it)" >&2
	exit 1
fi
echo "npmci: installing the packages of $source" >&2
rm -rf "$target"
mkdir -p "$target"
cp "$source/package.json" "$source/package-lock.json" "$source/.npmrc" "$target/"
# npm ci takes what the lock file names, and only with the hash that it gives.
if ! timeout 300 npm --prefix "$target" --cache "$here/../.cache/npm" --prefer-offline --fetch-retries 3 ci >"$target/.log" 2>&1; then
	{ grep -E '^npm (error|ERR!)' "$target/.log" || tail -n 5 "$target/.log"; } | head -20 >&2
	echo "npmci: installing the packages of $source failed; npm's registry is $(npm config get registry 2>/dev/null)" >&2
	exit 1
fi
echo "$inputs" >"$target/.inputs"
