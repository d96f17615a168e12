#!/usr/bin/env bash
# jdks.sh: unpacks OpenJDK of several versions, as Debian sid has them, each with the libraries that it needs, and prints where: lines
# "VERSION ROOT COMMAND", the last being java's path in the root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cachedir.sh" jdks

for version in 8 11 17 21 25 26 27; do
	root=$dir/$version
	"$here/debroot.sh" "$root" sid "openjdk-$version-jre-headless" libc6 libgcc-s1 libstdc++6 zlib1g
	java=("$root"/usr/lib/jvm/java-"$version"-openjdk-*/bin/java)
	if [[ ! -f ${java[0]} ]]; then
		echo "jdks: there is no java in openjdk-$version-jre-headless" >&2
		exit 1
	fi
	echo "$version $root ${java[0]#"$root"}"
done
