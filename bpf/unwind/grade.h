/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* How good a word is as the return address of code without unwind information. */
#ifndef HOSTPROFILES_GRADE_H
#define HOSTPROFILES_GRADE_H

#include "call.h"
#include "table.h"

/* How good a word is as the return address of the code at pc. */
enum grade {
	GRADE_NONE,
	GRADE_WEAK,
	GRADE_STRONG, /* what was called may have been the code at pc, as far as one sees */
};

/*
 * The rule of the code that an address is in, CFA_NONE's without a table; nothing if it is no code.
 * A gap in a table is none, unless it is the one that pc is in.
 */
INLINE const struct rule *code_rule(struct scratch *s, __u64 addr)
{
	struct walk *w = &s->walk;
	struct guess *g = &s->guess;
	__u32 key;

	g->number = search_mapping(w, addr, &g->bounds);
	forget();
	if (g->number)
		return 0;
	if (w->mapping.flags & MAPPING_TABLE) {
		g->number = search_rule(&w->mapping, addr - w->mapping.bias, &g->bounds);
		if (g->number == 0 && w->mapping.start != g->start)
			g->number = -1;
		forget();
	}
	if (g->number < 0)
		return 0;
	key = g->number;
	return bpf_map_lookup_elem(&rules, &key);
}

/* The call that ends at ra, in w->mapping; its target goes into guess.target. */
INLINE int find_call(struct scratch *s, __u64 ra)
{
	__u64 target = 0;

	s->guess.call = call_before(s->walk.mapping.start, ra, &target);
	s->guess.target = target;
	forget();
	return s->guess.call;
}

/*
 * Whether a frame with the rule r whose stack pointer is sp leads on: up the stack, to a return
 * address. Stale ones mostly don't.
 */
INLINE int leads_on(struct scratch *s, const struct rule *r, __u64 sp, __u64 fp)
{
	__u64 cfa, ra, base = r->reg == REG_SP ? sp : fp;
	const struct rule *above;
	int call;

	if (r->cfa != CFA_REG && r->cfa != CFA_MEM && r->cfa != CFA_PLT)
		return 1;
	if (r->cfa == CFA_REG && r->offset2 == CFA_NOTE_OTHER_STACK)
		return 1;
	if ((r->reg != REG_SP && r->reg != REG_FP) || r->ra != RA_AT_CFA)
		return 0;
#if defined(__TARGET_ARCH_arm64)
	if (r->reg == REG_SP && !s->guess.exact_sp) /* nobody knows */
		return 1;
#endif
	cfa = base + r->offset;
	if (r->cfa == CFA_MEM) {
		if (read_user(&cfa, sizeof(cfa), cfa))
			return 0;
		cfa += r->offset2;
	}
	if (cfa <= sp || cfa - sp >= GUESS_NEAR)
		return 0;
	if (r->reg == REG_SP)
		s->guess.cfa = cfa;
	if (read_user(&ra, sizeof(ra), cfa + 8 * (__s64)r->ra_offset))
		return 0;
	ra = strip_pac(ra);
	above = code_rule(s, ra - 1);
	if (!above)
		return 0;
	call = find_call(s, ra);
	if (call == CALL_UNREADABLE)
		return above->cfa != CFA_NONE;
	return call != CALL_NONE || above->cfa == CFA_SIGNAL;
}

/* Whether the function at target begins by saving the frame pointer. */
INLINE int saves_fp(__u64 target)
{
#if defined(__TARGET_ARCH_x86)
	__u32 v;

	if (read_user(&v, sizeof(v), target))
		return 1;
	if (v == 0xfa1e0ff3) { /* endbr64 */
		target += 4;
		if (read_user(&v, sizeof(v), target))
			return 1;
	}
	/*
	 * HotSpot's functions begin with a look whether the stack has room, mov %eax, -n(%rsp), and
	 * save rbp even where they keep no frame pointer (MacroAssembler::verified_entry in
	 * cpu/x86/macroAssembler_x86.cpp, JDK 17).
	 */
	if ((v & 0xffffff) == 0x248489)
		return read_user(&v, sizeof(v), target + 7) || v == 0xec8b4855 || v == 0xe5894855;
	return (v & 0xff) == 0x55;
#else
	return 1;
#endif
}

/*
 * Whether the code at target only jumps on to where data says, as the entries of procedure linkage
 * tables do (x86-64 psABI 1.0, 5.2, with endbr64 and, from older binutils, bnd; on
 * arm64 [bti c,] adrp x16, ldr x17, [x16, #n], AAPCS64's ELF supplement): nobody knows what was
 * called.
 */
INLINE int jumps_on(__u64 target)
{
#if defined(__TARGET_ARCH_x86)
	__u64 v;

	if (read_user(&v, sizeof(v), target))
		return 0;
	if ((__u32)v == 0xfa1e0ff3) /* endbr64 */
		v >>= 32;
	if ((v & 0xff) == 0xf2) /* bnd */
		v >>= 8;
	return (v & 0xffff) == 0x25ff;
#else
	__u32 v[3];

	if (read_user(v, sizeof(v), target))
		return 0;
	if (v[0] == 0xd503245f) { /* bti c */
		v[0] = v[1];
		v[1] = v[2];
	}
	return (v[0] & 0x9f00001f) == 0x90000010 && (v[1] & 0xffc003ff) == 0xf9400211;
#endif
}

/*
 * Whether the frame pointer of the caller whose return address lies at slot points to a frame
 * record that leads on.
 */
INLINE int record_leads_on(struct scratch *s, __u64 slot, __u64 fp)
{
	__u64 pair[2], ra;

	if ((fp & 7) || fp <= slot || fp - slot >= GUESS_NEAR || read_user(pair, sizeof(pair), fp))
		return 0;
	if (pair[0] <= fp || pair[0] - fp >= GUESS_NEAR)
		return 0;
	ra = strip_pac(pair[1]);
	if (!code_rule(s, ra - 1))
		return 0;
	return s->walk.mapping.flags & MAPPING_NO_TABLE || find_call(s, ra) != CALL_NONE;
}

/* Where a direct call goes, seen from the code at pc. */
enum target {
	TARGET_OWN,     /* into the same mapping */
	TARGET_SIMILAR, /* into code without unwind information, or nobody knows */
	TARGET_OTHER,
	TARGET_NO_CODE,
};

INLINE int where_is(struct scratch *s, __u64 target)
{
	if (target >= s->guess.start && target < s->guess.end)
		return TARGET_OWN;
	if (search_mapping(&s->walk, target, &s->guess.bounds))
		return TARGET_NO_CODE;
	if (s->walk.mapping.flags & MAPPING_NO_TABLE)
		return TARGET_SIMILAR;
	return jumps_on(target) ? TARGET_SIMILAR : TARGET_OTHER;
}

/*
 * Grades ra, which lies at slot, as a return address. fp is what the frame pointer would be in the
 * caller; trusted: the code itself or a chain of frame pointers led there.
 */
GUESS_PART int grade(struct scratch *s, __u64 slot, __u64 ra, __u64 fp, __u32 trusted)
{
	const struct rule *r;
	struct guess *g;
	__u32 flags;
	int call;

	if (!s)
		return GRADE_NONE;
	g = &s->guess;
	g->where = TARGET_OWN;
	g->cfa = 0;
	r = code_rule(s, ra - 1);
	if (!r)
		return GRADE_NONE;
	flags = s->walk.mapping.flags;
	call = find_call(s, ra);
	if (call == CALL_NONE) {
		if (r->cfa == CFA_SIGNAL)
			return GRADE_STRONG;
		/* an interpreter pushes where it goes on, and jumps */
		return trusted && flags & MAPPING_NO_TABLE && record_leads_on(s, slot, fp)
			   ? GRADE_WEAK
			   : GRADE_NONE;
	}
	if (call == CALL_DIRECT) {
		g->where = where_is(s, g->target);
		if (g->where == TARGET_NO_CODE)
			return GRADE_NONE;
	}
	forget();
	if (!(flags & (MAPPING_TABLE | MAPPING_NO_TABLE))) /* its table comes later */
		return call == CALL_UNREADABLE ? GRADE_NONE : GRADE_WEAK;
	if (r->cfa != CFA_NONE) {
		if (!leads_on(s, r, slot + 8, fp))
			return GRADE_NONE;
		if (call == CALL_UNREADABLE || g->where == TARGET_OTHER)
			return GRADE_WEAK;
		return GRADE_STRONG;
	}
	if (trusted)
		return GRADE_WEAK;
	if (call == CALL_UNREADABLE || g->where == TARGET_OTHER)
		return GRADE_NONE;
	if (call == CALL_DIRECT && g->where == TARGET_OWN && g->target <= s->walk.pc &&
	    !saves_fp(g->target))
		return GRADE_STRONG;
	return GRADE_WEAK;
}

#endif
