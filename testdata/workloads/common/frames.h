// frames.h defines functions whose frames are shaped in every way that compilers have: each needs another kind of unwind
// rule.
#ifndef FRAMES_H
#define FRAMES_H

#include <alloca.h>

#include "hot.h"

// A frame whose size is known at run time only: the CFA hangs on the frame pointer.
#define LEVEL_ALLOCA(name, down)                               \
	SOLID uint64_t name(uint64_t n)                        \
	{                                                      \
		volatile char *p = (volatile char *)alloca(32 + (n & 63)); \
		p[0] = (char)n;                                \
		uint64_t r = down(n);                          \
		KEEP(r);                                       \
		return r + (uint64_t)(p[0] & 0);               \
	}

// A frame that realigns the stack.
#define LEVEL_ALIGNED(name, down)                              \
	SOLID uint64_t name(uint64_t n)                        \
	{                                                      \
		__attribute__((aligned(64))) char a[128];      \
		char *p = a;                                   \
		KEEP(p);                                       \
		p[0] = (char)n;                                \
		uint64_t r = down(n);                          \
		KEEP(r);                                       \
		KEEP(p);                                       \
		return r;                                      \
	}

// A frame larger than a page.
#define LEVEL_BIG(name, down)                                  \
	SOLID uint64_t name(uint64_t n)                        \
	{                                                      \
		char a[5000];                                  \
		char *p = a;                                   \
		KEEP(p);                                       \
		p[4999] = p[0] = (char)n;                      \
		uint64_t r = down(n);                          \
		KEEP(r);                                       \
		KEEP(p);                                       \
		return r;                                      \
	}

// A frame that saves every callee-saved register.
#define LEVEL_SAVES(name, down)                                \
	SOLID uint64_t name(uint64_t n)                        \
	{                                                      \
		uint64_t a = n + 1, b = n + 2, c = n + 3, d = n + 4, e = n + 5, f = n + 6; \
		KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f); \
		uint64_t r = down(n);                          \
		KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f); \
		return r + (a ^ a) + (b - b) + (c - c) + (d - d) + (e - e) + (f - f); \
	}

// A call with arguments on the stack, which changes the CFA's offset in the middle of the caller, into a function that
// realigns its stack as well: on amd64 its CFA is read from memory by a DWARF expression.
#define LEVEL_ARGS(name, middle, down)                         \
	SOLID uint64_t middle(uint64_t n, int a, int b, int c, int d, int e, int f, int g, int h, int i) \
	{                                                      \
		__attribute__((aligned(64))) char l[128];      \
		char *p = l;                                   \
		KEEP(p);                                       \
		p[0] = (char)n;                                \
		uint64_t r = down(n);                          \
		KEEP(r);                                       \
		KEEP(p);                                       \
		return r + (uint64_t)((a + b + c + d + e + f + g + h + i) & 0); \
	}                                                      \
	SOLID uint64_t name(uint64_t n)                        \
	{                                                      \
		uint64_t r = middle(n, 1, 2, 3, 4, 5, 6, 7, 8, 9); \
		KEEP(r);                                       \
		return r;                                      \
	}

#endif
