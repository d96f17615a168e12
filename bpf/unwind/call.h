/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Whether a call instruction ends where an address is: what tells return addresses from other
 * words. */
#ifndef HOSTPROFILES_CALL_H
#define HOSTPROFILES_CALL_H

#include "../core/walk.h"

enum call {
	CALL_NONE,
	CALL_UNREADABLE, /* nobody knows */
	CALL_INDIRECT,
	CALL_DIRECT, /* to a known target */
};

#if defined(__TARGET_ARCH_x86)

/* The n-th byte before the end of v, n from 1 to 8. */
#define BEFORE(v, n) ((__u8)((v) >> (64 - 8 * (n))))

/*
 * Whether ff /2 ends where v does: by its length, which ModRM and SIB tell (Intel SDM, volume 2,
 * tables 2-2 and 2-3). Prefixes before it don't matter.
 */
INLINE int indirect_call(__u64 v)
{
	__u8 m;

	if (BEFORE(v, 2) == 0xff) {
		m = BEFORE(v, 1); /* call *%rax, call *(%rax) */
		if ((m & 0xf8) == 0xd0 || ((m & 0xf8) == 0x10 && (m & 6) != 4))
			return 1;
	}
	if (BEFORE(v, 3) == 0xff) {
		m = BEFORE(v, 2); /* call *8(%rax), call *(%rax,%rbx) */
		if ((m & 0xf8) == 0x50 && m != 0x54)
			return 1;
		if (m == 0x14 && (BEFORE(v, 1) & 7) != 5)
			return 1;
	}
	if (BEFORE(v, 4) == 0xff && BEFORE(v, 3) == 0x54) /* call *8(%rax,%rbx) */
		return 1;
	if (BEFORE(v, 6) == 0xff) {
		m = BEFORE(v, 5); /* call *0x1000(%rax), call *0x1000(%rip) */
		if (((m & 0xf8) == 0x90 && m != 0x94) || m == 0x15)
			return 1;
	}
	if (BEFORE(v, 7) == 0xff) {
		m = BEFORE(v, 6); /* call *0x1000(%rax,%rbx), call *0x1000(,%rbx) */
		if (m == 0x94 || (m == 0x14 && (BEFORE(v, 5) & 7) == 5))
			return 1;
	}
	return 0;
}

/* movabs $target, %r; call *%r, which end at ra: two words of code before it. */
INLINE __u64 loaded_target(__u64 v0, __u64 v1)
{
	__u8 reg = BEFORE(v1, 1) & 7, wide = BEFORE(v1, 3) == 0x41;

	if (BEFORE(v1, 2) != 0xff || (BEFORE(v1, 1) & 0xf8) != 0xd0)
		return 0;
	if (wide && BEFORE(v0, 5) == 0x49 && BEFORE(v0, 4) == (0xb8 | reg))
		return v0 >> 40 | v1 << 24;
	if (BEFORE(v0, 4) == 0x48 && BEFORE(v0, 3) == (0xb8 | reg))
		return v0 >> 48 | v1 << 16;
	return 0;
}

/*
 * Looks at the code that ends at ra, in a mapping that begins at start. A direct call may be a
 * piece of something else: the caller looks whether its target is code.
 */
INLINE int call_before(__u64 start, __u64 ra, __u64 *target)
{
	__u64 v[2] = {}, room = ra - start;

	if (room >= 8) {
		if (room < 16 || read_user(v, sizeof(v), ra - 16)) {
			v[0] = 0;
			if (read_user(&v[1], sizeof(v[1]), ra - 8))
				return CALL_UNREADABLE;
		}
	} else {
		if (read_user(&v[1], sizeof(v[1]), start))
			return CALL_UNREADABLE;
		v[1] <<= (64 - 8 * room) & 63;
	}
	if (indirect_call(v[1])) {
		*target = loaded_target(v[0], v[1]);
		return *target ? CALL_DIRECT : CALL_INDIRECT;
	}
	if (BEFORE(v[1], 5) == 0xe8) {
		*target = ra + (__s64)(__s32)(v[1] >> 32);
		return CALL_DIRECT;
	}
	return CALL_NONE;
}

#else

/* bl; blr and its forms that authenticate (Arm ARM, C4.1.66: unconditional branch (register)). */
INLINE int call_before(__u64 start, __u64 ra, __u64 *target)
{
	__u32 v;

	if ((ra & 3) || ra - start < 4)
		return CALL_NONE;
	if (read_user(&v, sizeof(v), ra - 4))
		return CALL_UNREADABLE;
	if ((v & 0xfc000000) == 0x94000000) {
		*target = ra - 4 + (((__s64)(__s32)(v << 6)) >> 4);
		return CALL_DIRECT;
	}
	if ((v & 0xfffffc1f) == 0xd63f0000 || (v & 0xfffff81f) == 0xd63f081f ||
	    (v & 0xfffff800) == 0xd73f0800)
		return CALL_INDIRECT;
	return CALL_NONE;
}

#endif
#endif
