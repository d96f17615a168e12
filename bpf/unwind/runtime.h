/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* What language runtimes' unwinders have in common. */
#ifndef HOSTPROFILES_RUNTIME_H
#define HOSTPROFILES_RUNTIME_H

#include "../core/walk.h"

/*
 * Gives a runtime the map in which user space tells of it by process: struct name_proc of abi.h,
 * behind whose it is. Its size is set by user space. name_proc_of(s) looks the sampled process's
 * up; 0 if there is none.
 */
#define RUNTIME_PROCS(name)                                                                        \
	struct name##_value {                                                                      \
		struct runtime_owner owner;                                                        \
		struct name##_proc proc;                                                           \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_HASH);                                                   \
		__uint(max_entries, 256);                                                          \
		__type(key, __u32);                                                                \
		__type(value, struct name##_value);                                                \
	} name##_procs SEC(".maps");                                                               \
	INLINE const struct name##_proc *name##_proc_of(struct scratch *s)                         \
	{                                                                                          \
		struct sample *h = &s->record.sample;                                              \
		__u32 pid = h->pid; /* older verifiers want a key on the stack */                  \
		struct name##_value *v = bpf_map_lookup_elem(&name##_procs, &pid);                 \
                                                                                                   \
		if (!v || v->owner.start_time != h->start_time || v->owner.exec_id != h->exec_id)  \
			return 0;                                                                  \
		return &v->proc;                                                                   \
	}

#endif
