// bpfobjects prints the ids of all BPF programs, maps and links of the kernel, one line of JSON.
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int list(const char *name, int cmd)
{
	union bpf_attr attr;
	memset(&attr, 0, sizeof attr);
	printf("\"%s\":[", name);
	for (int n = 0;; n++) {
		if (syscall(SYS_bpf, cmd, &attr, sizeof attr)) {
			if (errno != ENOENT && errno != EINVAL) // the end, or a kernel without such ids
				return 1;
			break;
		}
		printf("%s%u", n ? "," : "", attr.next_id);
		attr.start_id = attr.next_id;
	}
	printf("]");
	return 0;
}

int main(void)
{
	printf("{");
	int failed = list("programs", BPF_PROG_GET_NEXT_ID);
	printf(",");
	failed |= list("maps", BPF_MAP_GET_NEXT_ID);
	printf(",");
	failed |= list("links", BPF_LINK_GET_NEXT_ID);
	printf("}\n");
	return failed;
}
