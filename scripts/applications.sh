#!/usr/bin/env bash
# Installs what the applications among the tests' programs take from npm, unless it is in .cache/applications, and prints where it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cachedir.sh" applications
"$here/npmci.sh" "$here/../testdata/workloads/applications" "$dir/npm"
echo "$dir/npm/node_modules"
