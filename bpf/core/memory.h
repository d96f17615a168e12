/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Reading the target's memory and registers. */
#ifndef HOSTPROFILES_MEMORY_H
#define HOSTPROFILES_MEMORY_H

#include "maps.h"

INLINE int read_user(void *dst, __u32 size, __u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

#ifdef VARIANT_LOOP

/*
 * One word of the stack. Frames are small and lie one above the other, so a whole window is read at
 * once: reading user memory costs more for the call than for the bytes.
 */
INLINE int read_stack(struct walk *w, __u64 *value, __u64 addr)
{
	__u64 offset = addr - w->window_start;

	if (offset >= w->window_bytes || (offset & 7)) {
		w->window_bytes = 0;
		if (read_user(w->window, sizeof(w->window), addr)) /* beyond the stack, perhaps */
			return read_user(value, sizeof(*value), addr);
		w->window_bytes = sizeof(w->window);
		w->window_start = addr;
		offset = 0;
	}
	opaque(offset); /* the verifier needs to see the mask */
	*value = w->window[(offset >> 3) & (WINDOW_WORDS - 1)];
	return 0;
}

#else /* inlined so often, the window does not fit BPF's own stack */

INLINE int read_stack(struct walk *w, __u64 *value, __u64 addr)
{
	return read_user(value, sizeof(*value), addr);
}

#endif

/* The value of register n, fetched now if only its place was known. Non-zero if it is lost or
 * unreadable. */
INLINE int get_reg(struct walk *w, __u32 n, __u64 *value)
{
	__u64 v;

	n &= NUM_REGS - 1;
	if (!(w->known & (1u << n)))
		return STOP_REGISTER;
	v = w->regs[n];
	if (w->lazy & (1u << n)) {
		if (read_stack(w, &v, v))
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
