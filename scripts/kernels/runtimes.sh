#!/bin/bash
# runtimes.sh ARCH: unpacks CPython 3.13 and a tail-calling 3.14, Node.js 20 and OpenJDK 21 for an architecture, each with the libraries that it needs, and prints
# where: lines "NAME ROOT COMMAND", the last being a path in the root.
set -euo pipefail
arch=$1
scripts=$(cd "$(dirname "$0")/.." && pwd)
. "$scripts/cachedir.sh" guests

"$scripts/debroot.sh" "$dir/python-$arch" "trixie:$arch" python3.13-minimal libpython3.13-minimal libpython3.13-stdlib libc6 libexpat1 \
	libgcc-s1 zlib1g
echo "python $dir/python-$arch /usr/bin/python3.13"

"$scripts/debroot.sh" "$dir/tail-$arch" "trixie:$arch" libc6 libgcc-s1
standalone=$(PYTHON_ARCH=$arch "$scripts/standalones.sh" | sed -n 's/^3.14 //p')
mkdir -p "$dir/tail-$arch/python/bin" "$dir/tail-$arch/python/lib"
cp -u "$standalone" "$dir/tail-$arch/python/bin"
cp -ru "${standalone%/bin/*}/lib/python3.14" "$dir/tail-$arch/python/lib"
echo "tail $dir/tail-$arch /python/bin/python3.14"

"$scripts/debroot.sh" "$dir/java-$arch" "sid:$arch" openjdk-21-jre-headless libc6 libgcc-s1 libstdc++6 zlib1g
echo "java $dir/java-$arch /usr/lib/jvm/java-21-openjdk-$arch/bin/java"

"$scripts/debroot.sh" "$dir/node-$arch" "trixie:$arch" libc6 libgcc-s1 libstdc++6 libatomic1
node=$(NODE_ARCH=${arch/amd64/x64} "$scripts/nodes.sh" 20 | cut -d ' ' -f 2)
cp -u "$node" "$dir/node-$arch/node"
echo "node $dir/node-$arch /node"
