#!/usr/bin/env bash
# Builds the collector and profiles this host until ^C. CONFIG names another configuration than examples/run.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."

# The bits are those of include/uapi/linux/capability.h.
has() { (((0x$effective >> $1) & 1)); }
effective=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
if ! has 21 && ! { has 38 && has 39; }; then # CAP_SYS_ADMIN, or CAP_PERFMON and CAP_BPF
	cat >&2 <<'E2'
run: profiling a host needs the capabilities CAP_BPF and CAP_PERFMON, which this user does not have. Either
  sudo make run
or build as yourself and run as root:
  make build
  sudo build/otelcol-hostprofiles --config examples/run.yaml
E2
	exit 1
fi

scripts/build.sh
echo "run: profiling this host; the first table comes in a few seconds; ^C ends it"
exec build/otelcol-hostprofiles --config "${CONFIG:-examples/run.yaml}"
