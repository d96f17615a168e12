// bpfhammer updates one BPF map as fast as it can: while that happens on a CPU the kernel runs no programs of perf events
// there.
#include <linux/bpf.h>
#include <sys/syscall.h>

#include "hot.h"

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof *attr);
}

int main(int argc, char **argv)
{
	struct hot h;
	uint32_t key = 0;
	static char value[4096];
	union bpf_attr attr;
	hot_parse(&h, argc, argv, 0);
	memset(&attr, 0, sizeof attr);
	attr.map_type = BPF_MAP_TYPE_HASH;
	attr.key_size = sizeof key;
	attr.value_size = sizeof value;
	attr.max_entries = 1024;
	long map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0) {
		perror("creating a map");
		return 2;
	}
	memset(&attr, 0, sizeof attr);
	attr.map_fd = (uint32_t)map;
	attr.key = (uint64_t)&key;
	attr.value = (uint64_t)value;
	hot_ready();
	for (; h.rounds % 256 || hot_running(&h); h.rounds++) {
		key = (uint32_t)(h.rounds % 1024);
		if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
			return 3;
	}
	hot_done(&h);
	return 0;
}
