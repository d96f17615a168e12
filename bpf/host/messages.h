/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* What host.c and internal/unwind/hostbpf say to each other, in the host's byte order. */
#ifndef HOSTPROFILES_HOST_MESSAGES_H
#define HOSTPROFILES_HOST_MESSAGES_H

#define HOST_SLABS 64
#define HOST_NS_LEVELS 4

/*
 * size bytes follow. To the host: the name of a map with its values; "slab" (index: its number)
 * with blocks; "memory" (index: its address) with bytes, and "forget" for all of it; the name of a
 * constant (index: its value); "clear"; "sample" with struct host_sample and the kernel's frames.
 * From it: "read" (index: an address; nothing follows), to be answered by "data" with size bytes or
 * none; "record" (index: the ring's flags) with what goes into the ring; at the end of each sample
 * "done" (index: lookups in maps and reads of user memory) with the counters of all CPUs.
 */
struct message {
	char name[24];
	__u64 index;
	__u64 size;
};

struct host_sample {
	__u64 pc;
	__u64 reg[32]; /* by DWARF number */
	__u64 thread_pointer;
	__u64 start_time;
	__u64 time;
	__u64 ring_fill;
	__u32 pid, tid, ns_pid, ns_tid;
	__u32 ns_level, ns_inode; /* of the namespace that ns_pid and ns_tid are in */
	__u32 exec_id;
	__u32 cpu;
	__u32 task_flags; /* task_struct.flags */
	__u32 kernel_frames;
	__u8 kernel_mode;
	__u8 compat; /* a 32-bit process */
	__u8 no_mm;
	__u8 in_exec;
	__u8 ring_full;
	__u8 ask; /* for memory that was not sent */
	__u8 reserved[2];
};

#endif
