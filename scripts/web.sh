#!/usr/bin/env bash
# Builds and checks the page of the live flame graph, exporter/flamegraph/web.
# Usage: web.sh install|build|check|test...
set -euo pipefail
cd "$(dirname "$0")/.."

web=exporter/flamegraph/web
cache=$PWD/.cache

# require fails unless a command is there, in a version that package.json takes.
require() {
	local needed have
	if ! command -v "$1" >/dev/null; then
		echo "web: $1 is missing (scripts/setup.sh installs it)" >&2
		exit 1
	fi
	needed=$(sed -nE "s/^ *\"$1\": \">=([0-9]+)\".*/\1/p" "$web/package.json")
	have=$("$1" --version)
	have=${have#v}
	if ((${have%%.*} < needed)); then
		echo "web: $1 is version $have here: $needed or newer is needed" >&2
		exit 1
	fi
}

# install puts what package-lock.json names below .cache, where neither Go's tools nor those that look through the tree find
# it, and has a link to it in the page's folder.
install() {
	local modules=$cache/web
	require node
	require npm
	scripts/npmci.sh "$web" "$modules"
	if [[ $(readlink "$web/node_modules") != "$modules/node_modules" ]]; then
		rm -rf "$web/node_modules"
		ln -s "$modules/node_modules" "$web/node_modules"
	fi
}

script() { (cd "$web" && npm run --silent "$1" 2> >(grep -vi '^npm warn' >&2)); }

for command in "$@"; do
	case $command in
	install) install ;;
	build | test)
		install
		script "$command"
		;;
	check)
		install
		script check
		# What drives the page in its test follows the page's own style.
		"$web/node_modules/.bin/biome" check --error-on-warnings --config-path "$web" test/browser/drive
		;;
	*)
		echo "web: unknown: $command" >&2
		exit 2
		;;
	esac
done
