/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Go's stacks: from the system stack to the goroutine that it works for. */
#ifndef HOSTPROFILES_GOLANG_H
#define HOSTPROFILES_GOLANG_H

#include "../core/walk.h"

/* The m of a g that is its g0 or gsignal, as the current one on the system or signal stack must be.
 */
INLINE int go_machine(const struct go_table *go, __u64 g, __u64 *m)
{
	__u64 own;

	if (!g || read_user(m, sizeof(*m), g + go->g_m))
		return -1;
	if (!read_user(&own, sizeof(own), *m + go->m_g0) && own == g)
		return 0;
	return read_user(&own, sizeof(own), *m + go->m_gsignal) || own != g;
}

/* The thread's m, by the current g: it is in thread-local storage, or still in its register as the
 * walk began. */
INLINE int find_go_machine(struct walk *w, const struct go_table *go, __u64 *m)
{
	__u64 tp = thread_pointer(), offset = go->tls_g, g = 0;

	if (go->tls_got && read_user(&offset, sizeof(offset), go->tls_got + w->mapping.bias))
		offset = 0;
	if (tp && offset && !read_user(&g, sizeof(g), tp + offset) && !go_machine(go, g, m))
		return 0;
	return go_machine(go, w->regs[go->g_reg & (NUM_REGS - 1)], m);
}

/* The Go part of the table that the last frame was found by. */
INLINE const struct go_table *find_go_table(struct walk *w)
{
	__u32 slab = w->mapping.slab, block = w->mapping.block;
	void *inner = bpf_map_lookup_elem(&slabs, &slab);

	return inner ? bpf_map_lookup_elem(inner, &block) : 0;
}

/*
 * Go code on the system stack (g0) that works for a goroutine: the goroutine's own stack goes on at
 * g.m.curg.sched (runtime/runtime2.go; the offsets come with the table). The pc there is exact.
 */
INLINE int go_switch_step(struct walk *w)
{
	const struct go_table *go = find_go_table(w);
	__u64 m, curg, sp, pc, fp;

	if (!go || !go->g_m || w->switched)
		return stop(w, STOP_RUNTIME);
	if (find_go_machine(w, go, &m) || read_user(&curg, sizeof(curg), m + go->m_curg))
		return stop(w, STOP_RUNTIME);
	if (curg == 0)
		return stop(w, STOP_ROOT);
	if (read_user(&sp, sizeof(sp), curg + go->sched_sp) ||
	    read_user(&pc, sizeof(pc), curg + go->sched_pc) ||
	    read_user(&fp, sizeof(fp), curg + go->sched_fp) || !sp || !pc)
		return stop(w, STOP_RUNTIME);
	w->switched = 1;
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_SP, sp);
	set_reg(w, REG_FP, fp);
#if defined(__TARGET_ARCH_arm64)
	set_reg_lazy(w, REG_LR, curg + go->sched_lr);
#endif
	w->pc = pc;
	w->flags = 0;
	return STEP_FRAME;
}

#if defined(__TARGET_ARCH_arm64)

/*
 * runtime.asmcgocall, which keeps no frame pointer on arm64: on the system stack lie the goroutine
 * that called and how deep its stack was, or the stack pointer itself if there is none
 * (runtime/asm_arm64.s; docs/decisions/0010).
 */
INLINE int go_cgocall_step(struct walk *w, const struct rule *r)
{
	const struct go_table *go = find_go_table(w);
	__u64 g, depth, hi, cfa, ra, fp, sp = w->regs[REG_SP];

	if (!go || !go->g_m)
		return stop(w, STOP_RUNTIME);
	if (!(w->known & (1u << REG_SP)))
		return stop(w, STOP_REGISTER);
	if (read_user(&g, sizeof(g), sp + r->offset) ||
	    read_user(&depth, sizeof(depth), sp + r->offset2))
		return stop(w, STOP_MEMORY);
	if (g) {
		if (read_user(&hi, sizeof(hi), g + go->g_stack_hi))
			return stop(w, STOP_RUNTIME);
		depth = hi - depth;
	}
	cfa = depth - 8 * (__s64)r->ra_offset;
	if (read_user(&ra, sizeof(ra), cfa + 8 * (__s64)r->ra_offset) ||
	    read_user(&fp, sizeof(fp), cfa + 8 * (__s64)r->fp_offset))
		return stop(w, STOP_MEMORY);
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_SP, cfa);
	set_reg(w, REG_FP, fp);
	w->pc = strip_pac(ra);
	w->flags = FRAME_RETURN;
	return STEP_FRAME;
}

#endif

#endif
