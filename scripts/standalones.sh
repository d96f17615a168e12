#!/usr/bin/env bash
# standalones.sh: unpacks CPython as uv and others install it (python-build-standalone: made by clang, rearranged by BOLT; 3.14 goes from
# instruction to instruction by tail calls), which a Go module has in it, and prints where: lines "VERSION COMMAND".
# The architecture is that in PYTHON_ARCH, amd64 or arm64, this machine's by default.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
arch=${PYTHON_ARCH:-$(dpkg --print-architecture)}
. "$here/cachedir.sh" standalones

# unpack VERSION MODULE-VERSION HASH, the hash being what go.sum would have.
unpack() {
	local module=github.com/kluctl/go-embed-python root=$dir/$1-$arch said file
	if [[ $(cat "$root/complete" 2>/dev/null) != "$3" ]]; then
		said=$(cd "$dir" && GOFLAGS=-mod=mod "$here/retry.sh" go mod download -json "$module@$2")
		if [[ $said != *"\"Sum\": \"$3\""* ]]; then
			echo "standalones: $module@$2 is not what it was: $said" >&2
			exit 1
		fi
		rm -rf "$root.new" "$root"
		cp -r "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$said")/python/internal/data/linux-$arch" "$root.new"
		chmod -R u+w "$root.new"
		while read -r file; do
			gzip -d "$file"
		done < <(find "$root.new" -name '*.gz')
		chmod +x "$root.new/bin/python$1"
		echo "$3" >"$root.new/complete"
		mv "$root.new" "$root"
	fi
	echo "$1 $root/bin/python$1"
}

unpack 3.11 v0.0.0-3.11.11-20241219-1 h1:yVXFTxa6cvhLC6TwkDEHmNaiWlDyaFEGiXd1DQdoeOU=
unpack 3.14 v0.0.0-3.14.6-20260610-1 h1:oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4=
