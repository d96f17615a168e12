/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* The end of a sample: the copy for user space if the walk could not go on, and the record into the
 * ring. */
#ifndef HOSTPROFILES_COMMIT_H
#define HOSTPROFILES_COMMIT_H

#include "walk.h"

/* User space can finish these: it may know the mapping or table by then. */
INLINE int can_resume(__u32 stop)
{
	return stop == STOP_NO_PROCESS || stop == STOP_NO_MAPPING || stop == STOP_NO_TABLE ||
	       stop == STOP_STALE;
}

/*
 * Appends the registers of the pending frame and the stack above its stack pointer, page by page
 * until there are as many bytes as limit. Pages that can't be read are passed over, as long as they
 * are few: at the stack pointer code has made room that it has not touched yet (often it is just
 * about to, and the sample lies in its page fault), and above it there are buffers that were never
 * used to their end.
 */
INLINE void copy_stack(struct scratch *s, __u32 limit)
{
	struct walk *w = &s->walk;
	struct sample *h = &s->record.sample;
	struct registers *regs;
	struct stack_copy *c = &s->copy;
	__u32 at = w->words;
	__u64 addr = w->regs[REG_SP] & ~7ull, value;

	get_reg(w, REG_FP, &value);
#ifdef REG_BX
	get_reg(w, REG_BX, &value);
#endif
	if (at + sizeof(*regs) / 8 > FRAME_WORDS)
		return;
	regs = (struct registers *)&s->record.words[at & FRAME_MASK];
	regs->pc = w->pc;
	for (int i = 0; i < REG_GENERAL; i++)
		regs->reg[i] = w->regs[i];
	regs->known = w->known & ~w->lazy;
	regs->flags = w->flags;
	at += sizeof(*regs) / 8;

	c->addr = addr;
	c->at = at;
	c->bytes = 0;
	c->skipped = 0;
	for (int i = 0; i < COPY_CHUNKS; i++) {
		__u64 len, index;

		forget();
		index = c->at;
		if (c->bytes >= limit)
			break;
		len = COPY_CHUNK - (c->addr & (COPY_CHUNK - 1));
		/* what is true already, in a form that the verifier sees at the call */
		opaque(index);
		if (index > FRAME_WORDS + STACK_COPY_BYTES / 8)
			break;
		opaque(len);
		if (len > COPY_CHUNK)
			break;
		if (!bpf_probe_read_user(&s->record.words[index], len, (const void *)c->addr)) {
			h->copied |= 1u << i;
			c->at += len / 8;
			c->bytes += len;
			c->skipped = 0;
		} else if (++c->skipped > COPY_SKIPS) {
			break;
		}
		c->addr += len;
	}
	w->words += (sizeof(*regs) + c->bytes) / 8;
	h->copy_bytes = c->bytes;
}

/*
 * How much of the stack to copy: less as the ring fills up, nothing once it is over half full. Most
 * stacks are shallower than 4 KiB.
 */
INLINE __u32 copy_limit(__u64 fill)
{
	if (fill > ring_copy_bytes)
		return 0;
	if (fill > ring_copy_bytes / 2)
		return COPY_CHUNK;
	return fill > ring_copy_bytes / 4 ? STACK_COPY_BYTES / 4 : STACK_COPY_BYTES;
}

/*
 * Whether to wake the reader now rather than to let it poll: the ring fills up, or something runs
 * that BPF does not know and every further sample of which would cost a copy.
 */
INLINE int wakes_reader(const struct sample *h, struct counters *c, __u64 fill)
{
	if (fill > ring_wake_bytes)
		return 1;
	if (!can_resume(h->stop) || h->time - c->last_wake < WAKE_INTERVAL)
		return 0;
	c->last_wake = h->time;
	return 1;
}

INLINE void commit(struct scratch *s, struct counters *c)
{
	struct sample *h = &s->record.sample;
	struct walk *w = &s->walk;
	__u64 fill = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), size;

	h->user_words = w->words - h->kernel_words;
	h->user_frames = w->frames;
	h->copy_bytes = 0;
	h->copied = 0;
	h->stop = w->stop;
	h->stop_line = w->stop_line;
	if (can_resume(w->stop)) {
		__u32 limit = copy_limit(fill);

		h->flags |=
		    limit == STACK_COPY_BYTES ? SAMPLE_COPY : SAMPLE_COPY | SAMPLE_COPY_FULL;
		copy_stack(s, limit);
	}
	if (measure_duration)
		h->duration = bpf_ktime_get_ns() - h->time;
	size = sizeof(*h) + 8 * (__u64)w->words;
	opaque(size);
	if (size > sizeof(s->record))
		size = sizeof(s->record);
	if (bpf_ringbuf_output(&ring, &s->record, size,
			       wakes_reader(h, c, fill) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		c->lost_ring++;
}

#endif
