#!/usr/bin/env bash
# Runs a command that downloads, up to three times: a network, or a server, may fail for a moment.
# Usage: retry.sh COMMAND...
set -euo pipefail

for pause in 2 6; do
	"$@" && exit
	echo "retry: once more in $pause s: $*" >&2
	sleep "$pause"
done
"$@"
