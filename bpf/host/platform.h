/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What the kernel provides to BPF programs, for a build of the same code as an ordinary program of
 * user space: the macros of libbpf's bpf_helpers.h and bpf_core_read.h, and the helpers, which
 * host.c implements. The target's architecture is that of __TARGET_ARCH_*, whatever the host's is.
 */
#ifndef HOSTPROFILES_HOST_PLATFORM_H
#define HOSTPROFILES_HOST_PLATFORM_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <string.h>

#define SEC(name)

/* Maps are declared as libbpf reads them from BTF; host.c takes types and sizes from the same
 * declarations. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name[]

/* Kernel structures are the cut-down ones of core/task.h, which host.c fills. */
#define HOST_READ_1(s, a) ((s)->a)
#define HOST_READ_2(s, a, b) ((s)->a->b)
#define HOST_READ_PICK(_1, _2, name, ...) name
#define BPF_CORE_READ(s, ...)                                                                      \
	HOST_READ_PICK(__VA_ARGS__, HOST_READ_2, HOST_READ_1, )(s, __VA_ARGS__)
#define BPF_CORE_READ_BITFIELD_PROBED(s, field) ((s)->field)
#define bpf_core_read(dst, size, src) bpf_probe_read_kernel(dst, size, src)
#define bpf_core_field_exists(field) 1
/* The cut-down pt_regs is smaller than what is read at its place; any size at least that of
 * saved_regs will do. */
#define HOST_PT_REGS_BYTES 336
#define bpf_core_type_size(type)                                                                   \
	_Generic((type *)0, struct pt_regs *: HOST_PT_REGS_BYTES, default: sizeof(type))

struct task_struct;
struct pt_regs;

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_loop(__u32 n, void *callback, void *ctx, __u64 flags);
long bpf_tail_call(void *ctx, void *programs, __u32 index);
long bpf_ringbuf_output(void *ring, void *data, __u64 size, __u64 flags);
__u64 bpf_ringbuf_query(void *ring, __u64 what);
long bpf_probe_read_user(void *dst, __u32 size, const void *addr);
long bpf_probe_read_kernel(void *dst, __u32 size, const void *addr);
long bpf_get_stack(void *ctx, void *buf, __u32 size, __u64 flags);
struct task_struct *bpf_get_current_task_btf(void);
__u64 bpf_get_current_task(void);
long bpf_task_pt_regs(struct task_struct *task);
__u64 bpf_get_current_pid_tgid(void);
__u64 bpf_get_current_cgroup_id(void);
long bpf_get_current_comm(void *buf, __u32 size);
__u32 bpf_get_smp_processor_id(void);
__u64 bpf_ktime_get_ns(void);

#endif
