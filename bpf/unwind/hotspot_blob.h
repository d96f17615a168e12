/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* HotSpot's code cache: from an address to the CodeBlob that holds it, and what that says. */
#ifndef HOSTPROFILES_HOTSPOT_BLOB_H
#define HOSTPROFILES_HOTSPOT_BLOB_H

#include "runtime.h"

RUNTIME_PROCS(hotspot)

/* A segment's byte says how far back the block begins, as far as a byte can: 254 segments. So a
 * blob may have a megabyte, or 200 KiB with older kernels. */
#ifdef VARIANT_LOOP
#define HOTSPOT_HOPS 40
#else
#define HOTSPOT_HOPS 8
#endif
#define HOTSPOT_FREE 0xff

#define HOTSPOT_NMETHOD 0x00646f6874656d6eull /* "nmethod" */
#define HOTSPOT_NATIVE 0x6e2065766974616eull  /* "native nmethod" begins so */

INLINE int hotspot_within(__u64 a, __u64 low, __u64 high)
{
	return a - low < high - low && low < high;
}

/* Notes that something of the thread's Java frames is missing. */
INLINE void no_hotspot(struct scratch *s, __u32 line)
{
	s->record.sample.failed_runtime = RUNTIME_hotspot;
	s->record.sample.failed_line = line;
}

/* The word at an offset in bytes of what was read last; shorter fields don't cross words. */
INLINE __u64 hotspot_word(const struct hotspot_walk *y, __u32 offset)
{
	return y->words[(offset >> 3) & (HOTSPOT_HEAD_WORDS - 1)] >> (8 * (offset & 7));
}

/* Makes w describe the caller; saved is where its frame pointer is, 0 if it is the frame's own. */
INLINE void hotspot_to(struct walk *w, __u64 ra, __u64 saved, __u64 cfa)
{
	if (saved)
		set_reg_lazy(w, REG_FP, saved);
	w->known &= 1u << REG_FP;
	w->lazy &= 1u << REG_FP;
	set_reg(w, REG_SP, cfa);
	w->pc = ra;
	w->flags = FRAME_RETURN;
}

/*
 * Finds the block that pc is in, as CodeHeap::find_block_for does (share/memory/heap.cpp, JDK 8 to
 * 26). 0 if it is in none. Nothing locks the map: what is read of the block says whether it is
 * right.
 */
INLINE __u64 hotspot_block(struct scratch *s, const struct hotspot_proc *p, __u64 pc)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 low = 0, segmap = 0;
	__u32 shift = 0;

	for (int i = 0; i < HOTSPOT_HEAPS; i++) {
		const struct hotspot_heap *h = &p->heap[i];

		if (!hotspot_within(pc, h->low, h->high))
			continue;
		low = h->low;
		segmap = h->segmap;
		shift = h->shift & 31;
	}
	if (!low)
		return 0;
	y->segment = (pc - low) >> shift;
	y->done = 0;
	for (int i = 0; i < HOTSPOT_HOPS; i++) {
		forget();
		if (read_user(&y->hop, 1, segmap + y->segment))
			return 0;
		forget();
		if (!y->hop) {
			y->done = 1;
			break;
		}
		if (y->hop == HOTSPOT_FREE || y->hop > y->segment)
			return 0;
		y->segment -= y->hop;
	}
	forget();
	return y->done ? low + (y->segment << shift) : 0;
}

/* Whether the blob is an nmethod. */
INLINE int hotspot_is_nmethod(struct hotspot_walk *y, const struct hotspot_proc *p)
{
	if (p->flags & HOTSPOT_KINDS)
		return (__u8)hotspot_word(y, p->kind) == p->nmethod_kind;
	if (read_user(&y->kind, sizeof(y->kind), y->name))
		return 0;
	return y->kind == HOTSPOT_NMETHOD || y->kind == HOTSPOT_NATIVE;
}

/* Reads the blob that pc is in; non-zero if there is none. */
INLINE int hotspot_find_blob(struct scratch *s, const struct hotspot_proc *p, __u64 pc)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 block = hotspot_block(s, p, pc), inside;
	__u32 bytes = p->head_bytes & (8 * HOTSPOT_HEAD_WORDS - 1);

	if (!block || read_user(y->words, bytes, block) || !(__u8)hotspot_word(y, p->used))
		return -1;
	forget();
	y->blob = block + p->block_bytes;
	inside = pc - y->blob;
	if (inside >= (__u32)hotspot_word(y, p->size))
		return -1;
	y->code = hotspot_word(y, p->code);
	if (!(p->flags & HOTSPOT_CODE_POINTER))
		y->code = y->blob + (__u32)y->code;
	if (pc < y->code || y->code < y->blob)
		return -1;
	y->offset = pc - y->code;
	y->name = hotspot_word(y, p->name);
	y->kind = 0;
	y->frame_size = (__s32)hotspot_word(y, p->frame_size);
	y->frame_complete = (__s32)hotspot_word(y, p->frame_complete);
	if (p->flags & HOTSPOT_SHORT_COMPLETE)
		y->frame_complete = (__s16)y->frame_complete;
	if (y->frame_size > HOTSPOT_MAX_FRAME)
		return -1;
	forget();
	y->nmethod = hotspot_is_nmethod(y, p);
	forget();
	return 0;
}

/*
 * A method that is to be deoptimized has its callees return to another place, which all of them
 * share; where they were called from is kept in its frame (frame::get_deopt_original_pc in
 * share/runtime/frame.cpp).
 */
INLINE void hotspot_undo_deopt(struct scratch *s, const struct hotspot_proc *p)
{
	struct hotspot_walk *y = &s->hotspot;
	__u64 deopt = hotspot_word(y, p->deopt), mh = hotspot_word(y, p->deopt_mh), pc;

	if (!(p->flags & HOTSPOT_DEOPT_POINTER)) {
		deopt = y->blob + (__u32)deopt;
		mh = y->blob + (__u32)mh;
	}
	if (s->walk.pc != deopt && (s->walk.pc != mh || !(p->flags & HOTSPOT_DEOPT_MH)))
		return;
	if (read_user(&pc, sizeof(pc),
		      s->walk.regs[REG_SP] + (__s64)(__s32)hotspot_word(y, p->orig_pc)))
		return;
	pc = strip_pac(pc);
	if (pc >= y->code && pc - y->blob < (__u32)hotspot_word(y, p->size))
		y->offset = pc - y->code;
}

#endif
