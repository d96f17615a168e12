#!/usr/bin/env bash
# Compiles the programs in this directory, with Debian 12's gdc, gfortran and gnat (`scripts/setup.sh languages`).
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp ../src/nested.* "$work"
out=$PWD
cd "$work"
map=-fdebug-prefix-map=$work=/src
gdc -O1 -g "$map" -shared-libphobos -o "$out/d" nested.d
gfortran -O1 -g "$map" -fno-inline -o "$out/f90" nested.f90
gnatmake -q -O1 -g "$map" -o "$out/adb" nested.adb -bargs -shared
