#!/bin/bash
# apt.sh SUITE ARCH get|cache ARG...: apt-get or apt-cache for any Debian suite and architecture, in a state folder of its
# own that never touches the machine's. The mirror is the one that the machine's apt uses; signatures are checked.
set -euo pipefail
suite=$1 arch=$2 what=$3
shift 3
root=$(cd "$(dirname "$0")/../.." && pwd)/.cache/apt/$suite-$arch
options=(
	-o Dir::State="$root/state" -o Dir::State::status="$root/status" -o Dir::Cache="$root/cache"
	-o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferences=/dev/null
	-o Dir::Etc::preferencesparts=/dev/null -o APT::Architecture="$arch" -o APT::Architectures::="$arch"
	-o APT::Default-Release="$suite" -o Acquire::Languages=none -o APT::Sandbox::User=root
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
	-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
)
if [ ! -e "$root/ready" ] || [ -n "$(find "$root/ready" -mtime +1)" ]; then
	mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial"
	: >"$root/status"
	mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | head -1)
	[ -n "$mirror" ] || { echo "apt.sh: this machine's apt has no mirror" >&2; exit 1; }
	signed="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
	{
		echo "deb $signed $mirror $suite main"
		case $suite in
		*-backports) echo "deb $signed $mirror ${suite%-backports} main" ;;
		sid) ;;
		*) echo "deb $signed ${mirror%/debian*}/debian-security $suite-security main" ;;
		esac
	} >"$root/sources.list"
	apt-get "${options[@]}" -qq update >&2
	touch "$root/ready"
fi
exec "apt-$what" "${options[@]}" "$@"
