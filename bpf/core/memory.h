/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Reading the target's memory and registers. */
#ifndef HOSTPROFILES_MEMORY_H
#define HOSTPROFILES_MEMORY_H

#include "maps.h"

INLINE int read_user(void *dst, __u32 size, __u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

/* The value of register n, fetched now if only its place was known. Non-zero if it is lost or unreadable. */
INLINE int get_reg(struct walk *w, __u32 n, __u64 *value)
{
	__u64 v;

	n &= NUM_REGS - 1;
	if (!(w->known & (1u << n)))
		return STOP_REGISTER;
	v = w->regs[n];
	if (w->lazy & (1u << n)) {
		if (read_user(&v, sizeof(v), v))
			return STOP_MEMORY;
		w->regs[n] = v;
		w->lazy &= ~(1u << n);
	}
	*value = v;
	return 0;
}

INLINE void set_reg(struct walk *w, __u32 n, __u64 value)
{
	w->regs[n] = value;
	w->known |= 1u << n;
	w->lazy &= ~(1u << n);
}

/* The caller's value of register n is at addr; it is read when a rule asks for it. */
INLINE void set_reg_lazy(struct walk *w, __u32 n, __u64 addr)
{
	w->regs[n] = addr;
	w->known |= 1u << n;
	w->lazy |= 1u << n;
}

#endif
