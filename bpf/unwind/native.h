/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Native frames: tables made from .eh_frame, .debug_frame and pclntab, frame pointers where there
 * is none. */
#ifndef HOSTPROFILES_NATIVE_H
#define HOSTPROFILES_NATIVE_H

#include "../core/walk.h"

/* A page has at most 1 << TABLE_PAGE_BITS rows, in 1 + (1 << TABLE_PAGE_BITS) / BLOCK_ROWS blocks.
 */
#define BLOCK_SEARCH_STEPS 4
#define ROW_SEARCH_STEPS 6

#define ROW_OFFSET(row) ((row) >> ROW_RULE_BITS)
#define ROW_RULE(row) ((row) & ((1u << ROW_RULE_BITS) - 1))

/*
 * The number of the rule for the ELF virtual address, 0 if there is none, negative if the table is
 * inconsistent. One array lookup for the page, then a binary search over the first rows of its
 * blocks and one inside the block.
 */
INLINE int find_rule(const struct mapping *m, __u64 file_addr)
{
	__u32 slab = m->slab, page, index, block, first, next, lo, hi, key, row, at;
	struct block *b;
	void *inner;

	page = (file_addr >> TABLE_PAGE_BITS) - m->page0;
	if ((file_addr >> TABLE_PAGE_BITS) < m->page0 || page >= m->pages)
		return 0;
	inner = bpf_map_lookup_elem(&slabs, &slab);
	if (!inner)
		return -1;

	index = m->block + 1;
	block = index + page / BLOCK_ROWS;
	b = bpf_map_lookup_elem(inner, &block);
	if (!b)
		return -1;
	first = b->row[page % BLOCK_ROWS];
	page++;
	if (page % BLOCK_ROWS == 0) {
		block++;
		b = bpf_map_lookup_elem(inner, &block);
		if (!b)
			return -1;
	}
	next = b->row[page % BLOCK_ROWS];
	if (first >= next)
		return 0;

	/* rows begin behind the index, which has one entry more than there are pages */
	index += m->pages / BLOCK_ROWS + 1;
	at = file_addr & ((1u << TABLE_PAGE_BITS) - 1);
	key = (at << ROW_RULE_BITS) | ((1u << ROW_RULE_BITS) - 1);
	lo = first / BLOCK_ROWS;
	hi = (next - 1) / BLOCK_ROWS;
	block = index + lo;
	b = bpf_map_lookup_elem(inner, &block);
	if (!b)
		return -1;
	for (int i = 0; i < BLOCK_SEARCH_STEPS; i++) {
		if (lo >= hi)
			break;
		__u32 mid = lo + ((hi - lo + 1) >> 1);
		struct block *other;

		block = index + mid;
		other = bpf_map_lookup_elem(inner, &block);
		if (!other)
			return -1;
		if (other->row[0] <= key) {
			lo = mid;
			b = other;
		} else {
			hi = mid - 1;
		}
	}
	/* the last row at or before key, among those of the block that belong to the page */
	hi = next - lo * BLOCK_ROWS;
	if (hi > BLOCK_ROWS)
		hi = BLOCK_ROWS;
	lo = first > lo * BLOCK_ROWS ? first - lo * BLOCK_ROWS : 0;
	for (int i = 0; i < ROW_SEARCH_STEPS; i++) {
		if (lo + 1 >= hi)
			break;
		__u32 mid = (lo + hi) >> 1;
		if (b->row[mid & (BLOCK_ROWS - 1)] <= key)
			lo = mid;
		else
			hi = mid;
	}
	row = b->row[lo & (BLOCK_ROWS - 1)];
	return ROW_RULE(row);
}

/* A step by the frame-pointer convention: [fp] is the caller's fp, [fp + 8] the return address. */
INLINE int frame_pointer_step(struct walk *w, __u32 flags)
{
	__u64 fp, sp = w->regs[REG_SP], pair[2];
	int err = get_reg(w, REG_FP, &fp);

	if (err)
		return stop(w, flags & FRAME_GUESSED ? STOP_NO_RULE : err);
	if (fp == 0)
		return stop(w, STOP_ROOT);
	if ((fp & 7) || fp < sp)
		return stop(w, STOP_NO_RULE);
	if (read_user(pair, sizeof(pair), fp))
		return stop(w, flags & FRAME_GUESSED ? STOP_NO_RULE : STOP_MEMORY);
	pair[1] = strip_pac(pair[1]);
	if (pair[1] == 0)
		return stop(w, STOP_ROOT);
	w->known = 0;
	w->lazy = 0;
	set_reg(w, REG_FP, pair[0]);
	set_reg(w, REG_SP, fp + 16);
#if defined(__TARGET_ARCH_arm64)
	/* gcc puts the frame record at the bottom of the frame: then this is a lower bound only */
	if (flags & FRAME_GUESSED)
		w->known &= ~(1u << REG_SP);
#endif
	w->pc = pair[1];
	w->flags = FRAME_RETURN | flags;
	return STEP_FRAME;
}

#if defined(__TARGET_ARCH_x86)

/*
 * struct rt_sigframe behind its return address (arch/x86/include/asm/sigframe.h, Linux 6.18):
 * struct ucontext, whose uc_mcontext (offset 40) begins r8..r15, di, si, bp, bx, dx, ax, cx, sp, ip
 * (arch/x86/include/uapi/asm/sigcontext.h).
 */
INLINE int signal_step(struct walk *w)
{
	__u64 *gregs = w->window; /* it has room, and is of another stack afterwards */

	w->window_bytes = 0;
	if (read_user(gregs, 17 * 8, w->regs[REG_SP] + 40))
		return stop(w, STOP_MEMORY);
	w->regs[8] = gregs[0];
	w->regs[9] = gregs[1];
	w->regs[10] = gregs[2];
	w->regs[11] = gregs[3];
	w->regs[12] = gregs[4];
	w->regs[13] = gregs[5];
	w->regs[14] = gregs[6];
	w->regs[15] = gregs[7];
	w->regs[5] = gregs[8];
	w->regs[4] = gregs[9];
	w->regs[6] = gregs[10];
	w->regs[3] = gregs[11];
	w->regs[1] = gregs[12];
	w->regs[0] = gregs[13];
	w->regs[2] = gregs[14];
	w->regs[7] = gregs[15];
	w->pc = gregs[16];
	w->known = 0xffff;
	w->lazy = 0;
	w->flags = 0;
	return STEP_FRAME;
}

#else

/*
 * struct rt_sigframe: siginfo (128 bytes), struct ucontext, whose uc_mcontext (offset 176) has
 * fault_address, regs[31], sp, pc (arch/arm64/kernel/signal.c and include/uapi/asm/sigcontext.h,
 * Linux 6.18).
 */
INLINE int signal_step(struct walk *w)
{
	__u64 pc, sp = w->regs[REG_SP];

	if (!(w->known & (1u << REG_SP)))
		return stop(w, STOP_REGISTER);
	if (read_user(&pc, sizeof(pc), sp + 128 + 176 + 8 + 32 * 8))
		return stop(w, STOP_MEMORY);
	if (read_user(w->regs, 32 * 8, sp + 128 + 176 + 8))
		return stop(w, STOP_MEMORY);
	w->pc = pc;
	w->known = 0xffffffff;
	w->lazy = 0;
	w->flags = 0;
	return STEP_FRAME;
}

#endif

/*
 * Sets the caller's value of register n from where the rule says that it was saved. If it is lost,
 * that matters only where a rule needs it.
 */
INLINE void restore(struct walk *w, __u32 n, __u32 kind, __u64 cfa, __s64 offset)
{
	__u64 fp;

	switch (kind) {
	case SAVE_AT_CFA:
		set_reg_lazy(w, n, cfa + offset);
		break;
	case SAVE_AT_FP:
		if (get_reg(w, REG_FP, &fp))
			w->known &= ~(1u << n);
		else
			set_reg_lazy(w, n, fp + offset);
		break;
	case SAVE_UNDEFINED:
		w->known &= ~(1u << n);
		break;
	}
}

INLINE int find_cfa(struct walk *w, const struct rule *r, __u64 *cfa)
{
	__u64 base;
	int err = get_reg(w, r->reg, &base);

	if (err)
		return err;
	base += r->offset;
	if (r->cfa == CFA_MEM) {
		if (read_user(&base, sizeof(base), base))
			return STOP_MEMORY;
		base += r->offset2;
	} else if (r->cfa == CFA_PLT && (__s64)(w->pc & 15) >= r->offset2) {
		base += 8;
	}
	*cfa = base;
	return 0;
}

/* A step by a table's rule of the kinds that compute a CFA. */
INLINE int cfa_step(struct walk *w, const struct rule *r)
{
	__u32 kept = 1u << REG_SP | 1u << REG_FP;
	__u64 cfa, ra, sp = w->regs[REG_SP];
	int err = find_cfa(w, r, &cfa);

#if defined(__TARGET_ARCH_arm64)
	/* after a guessed step the stack pointer is not known, but the chain of frame pointers goes
	 * on */
	if (err == STOP_REGISTER && r->reg == REG_SP)
		return frame_pointer_step(w, FRAME_GUESSED);
#endif
	if (err)
		return stop(w, err);
	/* only a frame that nothing was called from yet may have pushed nothing */
	if ((cfa < sp || (cfa == sp && (w->flags & FRAME_RETURN))) &&
	    !(r->cfa == CFA_REG && r->offset2 == CFA_NOTE_OTHER_STACK))
		return stop(w, STOP_NO_PROGRESS);

	if (r->ra == RA_REG && (err = get_reg(w, r->ra_offset, &ra)))
		return stop(w, err);
	/* rbx first: its place may be relative to this frame's fp, which the caller's replaces next
	 */
#ifdef REG_BX
	kept |= 1u << REG_BX;
	restore(w, REG_BX, r->save >> 4, cfa, 8 * (__s64)r->bx_offset);
#endif
	if (r->ra_offset == -1 && r->fp_offset == -2 && (r->save & 15) == SAVE_AT_CFA &&
	    r->ra == RA_AT_CFA) {
		__u64 pair[2];

		if (read_stack(w, &pair[0], cfa - 16))
			set_reg_lazy(w, REG_FP, cfa - 16);
		else
			set_reg(w, REG_FP, pair[0]);
		if (read_stack(w, &pair[1], cfa - 8))
			return stop(w, STOP_MEMORY);
		ra = pair[1];
	} else {
		if (r->ra == RA_AT_CFA && read_stack(w, &ra, cfa + 8 * (__s64)r->ra_offset))
			return stop(w, STOP_MEMORY);
		restore(w, REG_FP, r->save & 15, cfa, 8 * (__s64)r->fp_offset);
	}
	w->known &= kept;
	set_reg(w, REG_SP, cfa);
	w->pc = strip_pac(ra);
	w->flags = FRAME_RETURN;
#if defined(__TARGET_ARCH_arm64)
	if (r->cfa == CFA_REG && r->offset2 == CFA_NOTE_INTERRUPTED) {
		set_reg_lazy(w, REG_LR, cfa - 16);
		w->flags = 0;
	}
#endif
	return STEP_FRAME;
}

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

/* One native frame: pushes the frame at w->pc and makes w describe its caller. */
INLINE int do_native_step(struct scratch *s)
{
	struct walk *w = &s->walk;
	__u64 addr = w->pc - (w->flags & FRAME_RETURN);
	const struct rule *r;
	int number = 0;
	__u32 key;

	if (unlikely(w->pc == 0))
		return stop(w, STOP_NO_MAPPING);
	if (find_mapping(w, addr))
		return stop(w, w->flags & FRAME_GUESSED ? STOP_NO_RULE : STOP_NO_MAPPING);
	if (w->mapping.flags & MAPPING_TABLE) {
		number = find_rule(&w->mapping, addr - w->mapping.bias);
		if (number < 0)
			return stop(w, STOP_STALE);
	} else if (!(w->mapping.flags & MAPPING_NO_TABLE)) {
		return stop(w, STOP_NO_TABLE);
	}
	key = number;
	r = bpf_map_lookup_elem(&rules, &key);
	if (!r)
		return stop(w, STOP_STALE);
	if (push_frame(s, RUNTIME_native))
		return stop(w, STOP_MAX_FRAMES);
	switch (r->cfa) {
	case CFA_NONE:
		return frame_pointer_step(w, FRAME_GUESSED);
	case CFA_ROOT:
		return stop(w, STOP_ROOT);
	case CFA_SIGNAL:
		return signal_step(w);
	case CFA_FRAME_POINTER:
		return frame_pointer_step(w, 0);
	case CFA_GO_SWITCH:
#if defined(__TARGET_ARCH_arm64)
		if (r->reg == REG_SP)
			return go_cgocall_step(w, r);
#endif
		return go_switch_step(w);
	default:
		return cfa_step(w, r);
	}
}

UNWINDER(native)

#endif
