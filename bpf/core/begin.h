/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* The beginning of a sample: who it is of, and where its user stack starts. */
#ifndef HOSTPROFILES_BEGIN_H
#define HOSTPROFILES_BEGIN_H

#include "walk.h"

/* Fills the head of the record except for what the trigger and the walk know. */
INLINE void begin_record(struct scratch *s, struct task_struct *task, __u8 trigger)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct sample *h = &s->record.sample;
	struct identity id;

	read_identity(task, &id);
	h->time = bpf_ktime_get_ns();
	h->start_time = id.start_time;
	h->exec_id = id.exec_id;
	h->weight = 1;
	h->cgroup = bpf_get_current_cgroup_id();
	h->pid = pid_tgid >> 32;
	h->tid = pid_tgid;
	h->cpu = bpf_get_smp_processor_id();
	h->kernel_words = 0;
	h->flags = 0;
	h->trigger = trigger;
	h->failed_runtime = RUNTIME_native;
	h->failed_line = 0;
	bpf_get_current_comm(h->comm, sizeof(h->comm));
	if (pid_ns_inode) {
		h->ns_pid = namespace_pid(BPF_CORE_READ(task, group_leader));
		h->ns_tid = namespace_pid(task);
	} else {
		h->ns_pid = h->pid;
		h->ns_tid = h->tid;
	}
}

/*
 * Makes the walk ready to step from the user registers. False if there is nothing to walk or the
 * process is not known; then walk.stop says which.
 */
INLINE int begin_walk(struct scratch *s, struct task_struct *task, const struct saved_regs *regs)
{
	struct sample *h = &s->record.sample;
	struct walk *w = &s->walk;
	struct process *p;
	__u64 generation;
	__u32 flags;

	w->lazy = 0;
	w->flags = 0;
	w->frames = 0;
	w->words = h->kernel_words;
	w->max_frames = max_frames;
	w->stop = STOP_MAX_FRAMES;
	w->stop_line = 0;
	w->switched = 0;
	w->searches = 0;
	w->runtime = RUNTIME_native;
	w->hidden = 0;
	w->calls = 0;
	s->python.known = 0;
	s->python.inside = 0;
	s->v8.bytecode = 0;
	w->window_bytes = 0;
	w->mapping.start = 0;
	w->mapping.end = 0;
	flags = TASK_READ(task, flags);
	if (flags & PF_KTHREAD)
		h->flags |= SAMPLE_KERNEL_THREAD;
	if (flags & PF_NO_USER) {
		stop(w, STOP_NO_USER);
		return 0;
	}
	if (!user_abi_supported(regs)) {
		stop(w, STOP_ABI);
		return 0;
	}
	set_user_regs(w, regs);
	if (pid_ns_inode && !h->ns_pid) { /* user space can't read its mappings: no copy for it */
		stop(w, STOP_ELSEWHERE);
		return 0;
	}

	p = bpf_map_lookup_elem(&processes, &h->pid);
	if (!p || p->start_time != h->start_time || p->exec_id != h->exec_id) {
		stop(w, STOP_NO_PROCESS);
		return 0;
	}
	generation = p->generation;
	opaque(generation);
	w->base = p->base;
	w->count = p->count;
	if (p->generation != generation || p->pid != h->pid) {
		stop(w, STOP_STALE);
		return 0;
	}
	return 1;
}

#endif
