/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * HotSpot's frames that were interrupted: they may not be there yet, or not any more. HotSpot says
 * how large a frame is and where its prologue ends; the instructions around pc tell the rest.
 * Several places come into question then, and the first one counts that holds a return address.
 */
#ifndef HOSTPROFILES_HOTSPOT_LEAF_H
#define HOSTPROFILES_HOTSPOT_LEAF_H

#include "call.h"
#include "hotspot_blob.h"

#define HOTSPOT_NEAR 4096      /* from the stack pointer to a stub's frame pointer */
#define HOTSPOT_STUB_SLOTS 24  /* words on the stack that stubs are searched */
#define HOTSPOT_CHECK_SLOTS 12 /* of these in C1's check of a subtype */
/* The first eight bytes of names. */
#define HOTSPOT_NAMED_STUBS 0x74756f5262757453ull /* "StubRout" */
#define HOTSPOT_NAMED_FLUSH 0x63695f6873756c66ull /* flush_icache_stub */
#define HOTSPOT_NAMED_CHECK 0x6275735f776f6c73ull /* slow_subtype_check Runtime1 stub */
#define HOTSPOT_NAMED_C1 0x69746e7552203143ull    /* C1 Runtime slow_subtype_check_blob, JDK 25 */
#define HOTSPOT_NAMED_C1_CHECK 0x5f776f6c7320656dull /* the second eight of that */
#define HOTSPOT_CHECK_ARGUMENTS 16

/* A place where the return address may be, what its caller's frame pointer and stack pointer are
 * then. */
INLINE void hotspot_slot(struct hotspot_walk *y, __u64 slot, __u64 saved, __u64 cfa)
{
	__u32 i;

	forget();
	i = y->found;
	if (i >= HOTSPOT_SLOTS)
		return;
	opaque(i);
	i &= HOTSPOT_SLOTS - 1;
	y->slot[i] = slot;
	y->saved[i] = saved;
	y->cfa[i] = cfa;
	y->found = i + 1;
}

/* The code around pc; zeros where it can't be read. */
INLINE void hotspot_text(struct hotspot_walk *y, __u64 pc)
{
	if (!read_user(y->text, sizeof(y->text), pc - 8 * HOTSPOT_CODE_BEFORE))
		return;
	__builtin_memset(y->text, 0, 8 * HOTSPOT_CODE_BEFORE);
	if (read_user(&y->text[HOTSPOT_CODE_BEFORE], 16, pc))
		y->text[HOTSPOT_CODE_BEFORE] = 0;
}

/*
 * Whether this is the stub slow_subtype_check of C1's, which has no frame: its caller has pushed
 * two arguments, which stay there. It pushes some registers, and more where it looks into a table
 * of supertypes (src/hotspot/cpu/{x86,aarch64}/c1_LIRAssembler_*.cpp, c1_Runtime1_*.cpp,
 * macroAssembler_*.cpp: check_klass_subtype_slow_path; JDK 8 to 25).
 */
INLINE int hotspot_is_check(const struct hotspot_walk *y)
{
	__u64 second;

	return y->kind == HOTSPOT_NAMED_CHECK ||
	       (y->kind == HOTSPOT_NAMED_C1 && !read_user(&second, sizeof(second), y->name + 8) &&
		second == HOTSPOT_NAMED_C1_CHECK);
}

#if defined(__TARGET_ARCH_x86)

#define HOTSPOT_METHOD_REG 3  /* rbx at an interpreted method's entry */
#define HOTSPOT_BCP_REG 13    /* r13 in the interpreter */
#define HOTSPOT_SENDER_REG 13 /* r13 at entries: the caller's stack pointer */

/* Whether the frame has been made room for: sub $n, %rsp ends before pc. */
INLINE int hotspot_made_room(const struct hotspot_walk *y)
{
	int made = 0;

	for (int i = 0; i <= 20; i++) { /* bytes from pc - 24 on */
		const __u64 *v = &y->text[HOTSPOT_CODE_BEFORE - 3 + i / 8];
		__u32 code = v[0] >> (8 * (i % 8));

		if (i % 8 > 5)
			code |= v[1] << (64 - 8 * (i % 8));
		code &= 0xffffff;
		if (y->offset + i < 24)
			continue;
		if (code == 0xec8348 || (code == 0xec8148 && i <= 17))
			made = 1;
	}
	return made;
}

/* Whether what is at pc comes behind pop %rbp: the poll of a return, or the return. The polls are
 * those of JDK 17 and later (cmp %rsp, off(%r15); ja), 11 (mov off(%r15), %r10; test %eax, (%r10))
 * and 8 (test %eax, off(%rip)). */
INLINE int hotspot_returning(__u64 v)
{
	__u32 three = v & 0xffffff;
	__u32 two = v & 0xffff;
	__u32 one = v & 0xff;

	return one == 0xc3 || one == 0xc2 || two == 0xc3f3 || three == 0xa73b49 ||
	       three == 0x673b49 || two == 0x870f || two == 0x8b4d || three == 0x028541 ||
	       two == 0x0585;
}

/* A frame of known size: MacroAssembler::verified_entry and remove_frame of cpu/x86, JDK 8 to 26.
 */
INLINE void hotspot_frame_slots(struct scratch *s)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 sp = s->walk.regs[REG_SP], top = sp + 8 * (__u64)(__u32)y->frame_size;
	__u64 v = y->text[HOTSPOT_CODE_BEFORE];

	if ((__s32)y->offset < y->frame_complete) {
		if (hotspot_made_room(y)) /* mov %rbp, n(%rsp) may come next */
			hotspot_slot(y, top - 8,
				     (v & 0xffffffff) == 0x246c8948 ||
					     (v & 0xffffffff) == 0x24ac8948
					 ? 0
					 : top - 16,
				     top);
		else if (y->text[HOTSPOT_CODE_BEFORE - 1] >> 56 == 0x55)
			hotspot_slot(y, sp + 8, sp, sp + 16);
		else
			hotspot_slot(y, sp, 0, sp + 8);
	}
	if ((v & 0xff) == 0x5d) /* pop %rbp */
		hotspot_slot(y, sp + 8, sp, sp + 16);
	if (hotspot_returning(v))
		hotspot_slot(y, sp, 0, sp + 8);
	hotspot_slot(y, top - 8, top - 16, top);
	/* intrinsics and stubs push and pop */
	hotspot_slot(y, top, top - 8, top + 8);
	hotspot_slot(y, top + 8, top, top + 16);
	hotspot_slot(y, top + 16, top + 8, top + 24);
	hotspot_slot(y, top + 24, top + 16, top + 32);
	if (!y->nmethod && y->frame_size > 3) { /* stale ones lie in a method's frame */
		hotspot_slot(y, top - 16, top - 24, top - 8);
		hotspot_slot(y, top - 24, top - 32, top - 16);
	}
	hotspot_slot(y, sp, 0, sp + 8);
}

/* Stubs: most of StubRoutines' begin with push %rbp; mov %rsp, %rbp, others and adapters push what
 * they need. */
INLINE void hotspot_stub_slots(struct scratch *s)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 fp, sp = s->walk.regs[REG_SP];
	int by_fp =
	    !get_reg(&s->walk, REG_FP, &fp) && !(fp & 7) && fp >= sp && fp - sp < HOTSPOT_NEAR;

	if (hotspot_is_check(y)) { /* the frame pointer is that of a frame further out */
		for (int i = 0; i < HOTSPOT_CHECK_SLOTS; i++)
			hotspot_slot(y, sp + 8 * i, 0, sp + 8 * i + 8 + HOTSPOT_CHECK_ARGUMENTS);
		return;
	}
	if (y->kind != HOTSPOT_NAMED_STUBS)
		hotspot_slot(y, sp, 0, sp + 8);
	if (by_fp)
		hotspot_slot(y, fp + 8, fp, fp + 16);
	for (int i = 0; i < HOTSPOT_STUB_SLOTS; i++)
		hotspot_slot(y, sp + 8 * i, 0, sp + 8 * i + 8);
}

#else

#define HOTSPOT_METHOD_REG 12 /* rmethod */
#define HOTSPOT_BCP_REG 22    /* rbcp */
#define HOTSPOT_SENDER_REG 19 /* r19_sender_sp */

/* The n-th instruction behind pc, before it if that is negative. */
#define HOTSPOT_CODE(y, n)                                                                         \
	((__u32)((y)->text[HOTSPOT_CODE_BEFORE + ((n) >> 1)] >> (32 * ((n) & 1))))

#define HOTSPOT_STP(v) (((v) & 0xffc07fff) == 0xa9007bfd) /* stp x29, x30, [sp, #n] */
#define HOTSPOT_LDP(v) (((v) & 0xffc07fff) == 0xa9407bfd) /* ldp x29, x30, [sp, #n] */
#define HOTSPOT_PUSH(v) ((v) == 0xa9bf7bfd)               /* stp x29, x30, [sp, #-16]! */
#define HOTSPOT_SUB(v) (((v) & 0xff0003ff) == 0xd10003ff) /* sub sp, sp, ... */
#define HOTSPOT_RET(v) ((v) == 0xd65f03c0)

/* What was executed of build_frame. */
enum hotspot_built {
	HOTSPOT_NOTHING,
	HOTSPOT_STORED,
	HOTSPOT_PUSHED,
};

INLINE int hotspot_built(const struct hotspot_walk *y)
{
	int built = HOTSPOT_NOTHING;

	for (int n = -2 * HOTSPOT_CODE_BEFORE; n < 0; n++) {
		__u32 v = HOTSPOT_CODE(y, n);

		if ((__s32)y->offset + 4 * n < 0)
			continue;
		if (HOTSPOT_STP(v))
			built = HOTSPOT_STORED;
		if (HOTSPOT_PUSH(v))
			built = HOTSPOT_PUSHED;
	}
	return built;
}

/* Whether x29 and x30 were loaded again, and a return is near. */
INLINE int hotspot_returning(const struct hotspot_walk *y)
{
	int loaded = 0, returns = 0;

	for (int n = -6; n < 0; n++)
		loaded |= HOTSPOT_LDP(HOTSPOT_CODE(y, n));
	for (int n = 0; n < 6; n++)
		returns |= HOTSPOT_RET(HOTSPOT_CODE(y, n));
	return loaded && returns;
}

/* A frame of known size: MacroAssembler::build_frame and remove_frame of cpu/aarch64, JDK 8 to 26.
 */
INLINE void hotspot_frame_slots(struct scratch *s)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 sp = s->walk.regs[REG_SP], top = sp + 8 * (__u64)(__u32)y->frame_size;

	if ((__s32)y->offset < y->frame_complete) {
		int built = hotspot_built(y);

		if (built == HOTSPOT_NOTHING)
			hotspot_slot(y, 0, 0, HOTSPOT_STP(HOTSPOT_CODE(y, 0)) ? top : sp);
		else if (built == HOTSPOT_PUSHED && HOTSPOT_SUB(HOTSPOT_CODE(y, 0)))
			hotspot_slot(y, sp + 8, sp, sp + 16);
	} else if (HOTSPOT_LDP(HOTSPOT_CODE(y, -1))) {
		hotspot_slot(y, 0, 0, top);
	} else if (hotspot_returning(y)) {
		hotspot_slot(y, 0, 0, sp);
	}
	hotspot_slot(y, top - 8, top - 16, top);
	hotspot_slot(y, 0, 0, sp);
}

INLINE void hotspot_stub_slots(struct scratch *s)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 fp, sp = s->walk.regs[REG_SP];
	__u32 arguments = 0;

	if (hotspot_is_check(y)) {
		arguments = HOTSPOT_CHECK_ARGUMENTS;
		if (y->offset >= 4 && !HOTSPOT_RET(HOTSPOT_CODE(y, 0)))
			arguments += 32; /* stp x0, x2, [sp, #-32]!; stp x4, x5, [sp, #16] */
	}
	hotspot_slot(y, 0, 0, sp + arguments);
	if (!get_reg(&s->walk, REG_FP, &fp) && !(fp & 7) && fp >= sp && fp - sp < HOTSPOT_NEAR)
		hotspot_slot(y, fp + 8, fp, fp + 16);
}

#endif

/* Whether Java code may return to ra. */
INLINE int hotspot_returns(const struct hotspot_proc *p, __u64 ra)
{
	__u64 target;
	int call;

	if (!hotspot_within(ra, p->low, p->high))
		return 0;
	if (hotspot_within(ra, p->interpreter_low, p->interpreter_high) || ra == p->call_return ||
	    hotspot_within(ra, p->barrier_low, p->barrier_high))
		return 1;
	call = call_before(p->low, ra, &target);
	return call == CALL_DIRECT || call == CALL_INDIRECT;
}

/* Reads what is at the i-th place. */
INLINE int hotspot_read_slot(struct scratch *s, __u32 i)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 ra = 0, slot = y->slot[i & (HOTSPOT_SLOTS - 1)];
	int err;

#if defined(__TARGET_ARCH_arm64)
	if (!slot) {
		err = get_reg(&s->walk, REG_LR, &ra);
		y->ra = strip_pac(ra);
		return err;
	}
#endif
	err = slot < s->walk.regs[REG_SP] || read_user(&ra, sizeof(ra), slot);
	y->ra = strip_pac(ra);
	return err;
}

/* Makes w describe the caller by the first place that holds a return address; false if none does.
 */
INLINE int hotspot_try_slots(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;

	for (__u32 i = 0; i < HOTSPOT_SLOTS; i++) {
		forget();
		if (i >= y->found)
			break;
		y->done = !hotspot_read_slot(s, i) && hotspot_returns(p, y->ra);
		forget();
		if (y->done) {
			hotspot_to(&s->walk, y->ra, y->saved[i], y->cfa[i]);
			return 1;
		}
	}
	return 0;
}

/* The step from a blob that was interrupted; false if nothing tells its caller. */
INLINE int hotspot_leave_leaf(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;
	struct walk *w = &s->walk;
	__u64 top, ra;

	hotspot_text(y, w->pc);
	forget();
	y->found = 0;
	if (y->frame_size <= 0) {
#if defined(__TARGET_ARCH_x86)
		/* C++ has called it, and it pushes nothing (icache_x86.cpp) */
		if (y->kind == HOTSPOT_NAMED_FLUSH) {
			if (read_user(&ra, sizeof(ra), w->regs[REG_SP]))
				return 0;
			hotspot_to(w, ra, 0, w->regs[REG_SP] + 8);
			return 1;
		}
#endif
		hotspot_stub_slots(s);
		return hotspot_try_slots(s, p);
	}
	hotspot_frame_slots(s);
	if (hotspot_try_slots(s, p))
		return 1;
	/* a caller that is to be deoptimized: what it returns to is behind no call */
	top = w->regs[REG_SP] + 8 * (__u64)(__u32)y->frame_size;
	if (read_user(&ra, sizeof(ra), top - 8))
		return 0;
	ra = strip_pac(ra);
	if (!hotspot_within(ra, p->low, p->high))
		return 0;
	hotspot_to(w, ra, top - 16, top);
	return 1;
}

#endif
