#!/usr/bin/env bash
# Builds the collector, profiles this host and serves the live flame graph until ^C. CONFIG names another configuration than
# examples/run.yaml, FLAMEGRAPH_ENDPOINT another address for the page than 127.0.0.1:4041.
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

config=${CONFIG:-examples/run.yaml}
if [[ $config != examples/run.yaml ]]; then
	echo "run: profiling this host with $config; ^C ends it"
	exec build/otelcol-hostprofiles --config "$config"
fi

endpoint=${FLAMEGRAPH_ENDPOINT:-127.0.0.1:4041}
if [[ $endpoint != *:[0-9]* || $endpoint == :* ]]; then
	echo "run: FLAMEGRAPH_ENDPOINT is \"$endpoint\"; it must be an address and a port, such as 127.0.0.1:4042, or 0.0.0.0:4042 for all" >&2
	exit 1
fi
host=${endpoint%:*} port=${endpoint##*:}
if (exec 3<>"/dev/tcp/${host//[\[\]]/}/$port") 2>/dev/null; then
	echo "run: something listens at $endpoint already; choose another port: make run FLAMEGRAPH_ENDPOINT=127.0.0.1:4042" >&2
	exit 1
fi

# Whether somebody looks at this over ssh: sudo may have dropped the variables, but not the parents.
over_ssh() {
	[[ -n ${SSH_CONNECTION:-} ]] && return
	local pid=$PPID
	while ((pid > 1)); do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) == sshd* ]] && return
		pid=$(sed -n 's/^PPid:\t//p' "/proc/$pid/status" 2>/dev/null) || return 1
		[[ -n $pid ]] || return 1
	done
	return 1
}

shown=$host
case $host in
0.0.0.0 | '[::]') shown=$(uname -n) ;; # everywhere: also under the name of this host
esac
echo "run: the live flame graph is at http://$shown:$port/"
if over_ssh; then
	read -r _ _ server _ <<<"${SSH_CONNECTION:-- - $(uname -n) -}"
	echo "run: from your own machine: ssh -L $port:$endpoint ${SUDO_USER:-$(id -un)}@$server, then http://127.0.0.1:$port/"
fi
echo "run: profiling this host; the first table comes in a few seconds; ^C ends it"
exec build/otelcol-hostprofiles --config "$config"
