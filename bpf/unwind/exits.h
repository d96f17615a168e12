/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What the code from pc on says of its frame: how a function leaves tells how far above the stack
 * pointer its return address is, and where it saved the frame pointer. The bytes are not decoded:
 * looked for are the few instructions that epilogues are made of, right before a return. What is
 * found so is only a hint: the return address that it leads to is verified.
 */
#ifndef HOSTPROFILES_EXITS_H
#define HOSTPROFILES_EXITS_H

#include "../core/walk.h"

#if defined(__TARGET_ARCH_x86)

INLINE __u8 code_byte(const struct guess *g, __u32 i)
{
	return g->code[i & (GUESS_CODE - 1)];
}

/* The four bytes of code at number i. */
INLINE __u32 code_word(const struct guess *g, __u32 i)
{
	const __u8 *b = &g->code[i & (GUESS_CODE - 1)];

	return b[0] | b[1] << 8 | b[2] << 16 | (__u32)b[3] << 24;
}

INLINE void add_exit(struct guess *g, __s32 size, __s32 fp_at, __u32 kind)
{
	__u32 i = g->exits;

	if (i >= GUESS_EXITS)
		return;
	g->exit[i].size = size;
	g->exit[i].fp_at = fp_at;
	g->exit[i].kind = kind;
	g->exits = i + 1;
}

/* One instruction of a prologue at g->at: push, sub $n, %rsp, mov %rsp, %rbp, endbr64, and the look
 * whether the stack has room: mov %eax, -n(%rsp). Its length; 0 if it is another one, or n is so
 * large that the sum of GUESS_TOKENS of them may be negative. */
INLINE __u32 entry_token(struct guess *g)
{
	__u32 v = code_word(g, g->at), v3 = v & 0xffffff;

	if ((v & 0xf8) == 0x50 || (v & 0xf8ff) == 0x5041) {
		g->pushed += 8;
		return (v & 0xff) == 0x41 ? 2 : 1;
	}
	if (v3 == 0xec8348 && !(v >> 31)) {
		g->pushed += v >> 24;
		return 4;
	}
	if (v3 == 0xec8148 && !(code_word(g, g->at + 3) >> 28)) {
		g->pushed += code_word(g, g->at + 3);
		return 7;
	}
	if (v3 == 0xe58948 || v3 == 0xec8b48) {
		g->framing = 1;
		return 3;
	}
	if (v3 == 0x248489 && code_byte(g, g->at + 6) == 0xff) /* see saves_fp() */
		return 7;
	return v == 0xfa1e0ff3 ? 4 : 0;
}

/* One instruction of an epilogue that ends at g->at: pop, add $n, %rsp, and what takes the stack
 * pointer from the frame pointer. False if it is another one, or is behind pc. */
INLINE int exit_token(struct guess *g)
{
	__u32 at = g->at, v, v3;

	if (at >= 7) {
		v3 = code_word(g, at - 7) & 0xffffff;
		if (v3 == 0xc48148) {
			g->size += code_word(g, at - 4);
			g->run = RUN_WHOLE;
			return 0;
		}
		if (v3 == 0xa58d48) {
			g->run = RUN_BY_FP;
			return 0;
		}
	}
	if (at >= 4) {
		v = code_word(g, at - 4);
		v3 = v & 0xffffff;
		if (v3 == 0xc48348 && !(v >> 31)) {
			g->size += v >> 24;
			g->run = RUN_WHOLE;
			return 0;
		}
		if (v3 == 0x658d48 || v >> 8 == 0xec8948 || v >> 8 == 0xe58b48) {
			g->run = RUN_BY_FP;
			return 0;
		}
	}
	v = at ? code_byte(g, at - 1) : 0;
	if (v == 0xc9) {
		g->run = RUN_BY_FP;
		return 0;
	}
	if ((v & 0xf8) != 0x58)
		return 0;
	g->size += 8;
	g->run = RUN_POPS;
	g->at = at - 1;
	if (at >= 2 && code_byte(g, at - 2) == 0x41)
		g->at = at - 2;
	else if (v == 0x5d)
		g->fp_at = g->size; /* from above, so far */
	return 1;
}

/* Reads the epilogue before the return, or the jump to another function, at number at. */
INLINE void read_exit(struct guess *g, __u32 at)
{
	__u32 jump = code_byte(g, at) == 0xe9;

	g->bare |= !at && jump;
	if (at && code_byte(g, at - 1) == 0xf3)
		at--;
	/* HotSpot looks whether it has to stop before it returns: cmp n(%r15), %rsp; ja
	 * (MacroAssembler::safepoint_poll in cpu/x86/macroAssembler_x86.cpp, JDK 17) */
	if (at >= 13 && (code_word(g, at - 13) & 0xffffff) == 0xa73b49 &&
	    (code_word(g, at - 6) & 0xffff) == 0x870f)
		at -= 13;
	g->at = at;
	g->size = 0;
	g->fp_at = 0;
	g->run = at || jump ? RUN_NONE : RUN_POPS;
	for (int i = 0; i < GUESS_TOKENS; i++) {
		forget();
		if (!exit_token(g))
			break;
	}
	forget();
	if (g->run == RUN_BY_FP) {
		add_exit(g, 0, -1, EXIT_BY_FP);
	} else if (g->run != RUN_NONE) {
		add_exit(g, g->size, g->fp_at ? g->size - g->fp_at : -1, EXIT_BY_SP);
	} else if (!jump) {
		g->bare = 1;
	}
}

/* Reads the code at pc: what is left of its page at least. */
INLINE __u32 read_code(struct guess *g, __u64 pc)
{
	__u32 len = 4096 - (pc & 4095);

	if (!read_user(g->code, GUESS_CODE, pc))
		return GUESS_CODE;
	if (len >= GUESS_CODE)
		return 0;
	opaque(len);
	len &= GUESS_CODE - 1;
	if (read_user(g->code, len, pc))
		return 0;
	return len;
}

/*
 * Whether another function begins right behind the return or jump at number i: there is padding, or
 * an address that compilers align functions to. Without an epilogue a byte that is a return and has
 * padding behind it will do.
 */
INLINE int ends_function(const struct guess *g, __u64 pc, __u32 i, __u32 n)
{
	__u32 kind = code_byte(g, i), next = i + (kind == 0xe9 ? 5 : kind == 0xc2 ? 3 : 1), v;

	if (g->run == RUN_NONE && kind != 0xc3)
		return 0;
	if (((pc + next) & 15) == 0 && g->run != RUN_NONE)
		return 1;
	if (next + 2 > n || next + 2 > GUESS_CODE)
		return 0;
	v = code_byte(g, next) | code_byte(g, next + 1) << 8;
	return (v & 0xff) == 0xcc || (v & 0xff) == 0x90 || v == 0x9066 || v == 0x2e66 ||
	       v == 0x0f66 || v == 0x1f0f;
}

/* Finds how the function at pc ends, and if it may not have begun yet, what its prologue will still
 * push. */
GUESS_PART int find_exits(struct scratch *s)
{
	struct guess *g;

	if (!s)
		return 0;
	g = &s->guess;
	g->code_read = read_code(g, s->walk.pc);
	g->at = 0;
	g->framing = 0;
	g->found = 0;
	g->rest = g->exact;
	for (int i = 0; i < GUESS_TOKENS; i++) {
		forget();
		if (!g->rest || g->at + 8 > g->code_read)
			break;
		g->rest = entry_token(g);
		g->at += g->rest;
	}
	for (__u32 i = 0; i < GUESS_CODE; i++) {
		__u32 at;

		forget();
		at = g->found;
		if (i >= g->code_read || at >= GUESS_RETURNS)
			break;
		if ((g->code[i] & 0xfe) == 0xc2 || g->code[i] == 0xe9) { /* ret, jmp */
			g->places[at & (GUESS_RETURNS - 1)] = i;
			g->found = at + 1;
		}
	}
	for (__u32 i = 0; i < GUESS_RETURNS; i++) {
		forget();
		if (i >= g->found)
			break;
		read_exit(g, g->places[i]);
		forget();
		if (ends_function(g, s->walk.pc, g->places[i], g->code_read))
			break;
	}
	return 0;
}

#endif
#endif
