/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The current task, read through CO-RE: identity, flags, user registers. Structures hold just the
 * members read here; their names and meaning are those of include/linux/sched.h and arch's
 * asm/ptrace.h.
 */
#ifndef HOSTPROFILES_TASK_H
#define HOSTPROFILES_TASK_H

#include "maps.h"

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL_TYPE;

struct pid_namespace {
	struct ns_common ns;
} KERNEL_TYPE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL_TYPE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL_TYPE;

struct mm_struct;

struct thread_struct {
	unsigned long fsbase; /* x86 */
	struct {
		unsigned long tp_value;
	} uw; /* arm64 */
} KERNEL_TYPE;

struct pt_regs {
	unsigned long sp;
} KERNEL_TYPE;

struct task_struct {
	unsigned int flags;
	void *stack;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 start_boottime;
	__u64 self_exec_id;
	struct thread_struct thread;
	unsigned int in_execve : 1;
} KERNEL_TYPE;

/*
 * include/linux/sched.h, Linux 5.10 to 6.18. Workers that belong to a process (io_uring's, vhost's)
 * have no user registers. PF_USER_WORKER came with 6.4; the bit was free from 5.17 on and had
 * another meaning before.
 */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
#ifdef VARIANT_LOOP
#define PF_NO_USER (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)
#else
#define PF_NO_USER (PF_KTHREAD | PF_IO_WORKER)
#endif

INLINE struct task_struct *current_task(void)
{
#ifdef VARIANT_LOOP
	return bpf_get_current_task_btf();
#else
	return (struct task_struct *)bpf_get_current_task();
#endif
}

/* A field of the task; with the variant for newer kernels its pointer is a typed one, which needs
 * no helper call. */
#ifdef VARIANT_LOOP
#define TASK_READ(task, field) ((task)->field)
#else
#define TASK_READ(task, field) BPF_CORE_READ(task, field)
#endif

struct identity {
	__u64 start_time;
	__u32 exec_id;
};

INLINE void read_identity(struct task_struct *task, struct identity *id)
{
	struct task_struct *leader = TASK_READ(task, group_leader);

	id->start_time = TASK_READ(leader, start_boottime);
	id->exec_id = TASK_READ(task, self_exec_id);
}

#define MAX_PID_NS_LEVEL 8 /* the kernel's is 32; nobody nests so deep */

/* The pid of the task in the collector's pid namespace; 0 if it isn't visible there. */
INLINE __u32 namespace_pid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 size = bpf_core_type_size(struct upid);
	struct upid upid = {};
	__u32 level;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	for (__u32 i = 1; i <= MAX_PID_NS_LEVEL; i++) {
		if (i > level)
			break;
		bpf_core_read(&upid, sizeof(upid), (void *)&pid->numbers[0] + i * size);
		if (upid.ns && BPF_CORE_READ(upid.ns, ns.inum) == pid_ns_inode)
			return upid.nr;
	}
	return 0;
}

INLINE __u64 thread_pointer(void)
{
	struct task_struct *task = current_task();
#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(task, thread.fsbase);
#else
	return BPF_CORE_READ(task, thread.uw.tp_value);
#endif
}

INLINE int in_exec(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->in_execve))
		return 0;
	return BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

#if defined(__TARGET_ARCH_x86)

/* arch/x86/include/uapi/asm/ptrace.h; what the kernel saves on entry has the same layout. */
struct saved_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
	    flags, sp, ss;
};

#define USER_CS 0x33 /* __USER_CS: 64-bit code */

INLINE int user_mode(const struct saved_regs *regs)
{
	return (regs->cs & 3) == 3;
}

INLINE int user_abi_supported(const struct saved_regs *regs)
{
	return (regs->cs & 0xffff) == USER_CS;
}

INLINE void set_user_regs(struct walk *w, const struct saved_regs *regs)
{
	w->regs[0] = regs->ax;
	w->regs[1] = regs->dx;
	w->regs[2] = regs->cx;
	w->regs[3] = regs->bx;
	w->regs[4] = regs->si;
	w->regs[5] = regs->di;
	w->regs[6] = regs->bp;
	w->regs[7] = regs->sp;
	w->regs[8] = regs->r8;
	w->regs[9] = regs->r9;
	w->regs[10] = regs->r10;
	w->regs[11] = regs->r11;
	w->regs[12] = regs->r12;
	w->regs[13] = regs->r13;
	w->regs[14] = regs->r14;
	w->regs[15] = regs->r15;
	w->pc = regs->ip;
	w->known = 0xffff;
}

#else

/* arch/arm64/include/uapi/asm/ptrace.h, struct user_pt_regs. */
struct saved_regs {
	__u64 regs[31], sp, pc, pstate;
};

#define PSR_MODE_MASK 0xf
#define PSR_MODE32_BIT 0x10

INLINE int user_mode(const struct saved_regs *regs)
{
	return (regs->pstate & PSR_MODE_MASK) == 0;
}

INLINE int user_abi_supported(const struct saved_regs *regs)
{
	return user_mode(regs) && !(regs->pstate & PSR_MODE32_BIT);
}

INLINE void set_user_regs(struct walk *w, const struct saved_regs *regs)
{
	for (int i = 0; i < 31; i++)
		w->regs[i] = regs->regs[i];
	w->regs[REG_SP] = regs->sp;
	w->pc = regs->pc;
	w->known = 0xffffffff;
}

#endif

/*
 * The registers that the task had when it entered the kernel. 5.10 has no helper for them; they lie
 * at the top of the kernel stack on both architectures (task_pt_regs of asm/processor.h).
 */
INLINE int read_task_regs(struct task_struct *task, struct saved_regs *regs)
{
	void *at;

#ifdef VARIANT_LOOP
	at = (void *)bpf_task_pt_regs(task);
#else
	at = BPF_CORE_READ(task, stack);
	at += kernel_stack_bytes - bpf_core_type_size(struct pt_regs);
#endif
	return bpf_probe_read_kernel(regs, sizeof(*regs), at);
}

#endif
