/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* From an ELF virtual address to the rule that an executable's table has for it. */
#ifndef HOSTPROFILES_TABLE_H
#define HOSTPROFILES_TABLE_H

#include "../core/walk.h"

/* A page has at most 1 << TABLE_PAGE_BITS rows, in 1 + (1 << TABLE_PAGE_BITS) / BLOCK_ROWS blocks.
 */
#define BLOCK_SEARCH_STEPS 4
#define ROW_SEARCH_STEPS 6

#define ROW_RULE(row) ((row) & ((1u << ROW_RULE_BITS) - 1))

/*
 * The number of the rule for the ELF virtual address, 0 if there is none, negative if the table is
 * inconsistent. One array lookup for the page, then a binary search over the first rows of its
 * blocks and one inside the block.
 */
INLINE int search_rule(const struct mapping *m, __u64 file_addr, struct bounds *bounds)
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
		settle(bounds, &lo, &hi);
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
		settle(bounds, &lo, &hi);
	}
	row = b->row[lo & (BLOCK_ROWS - 1)];
	return ROW_RULE(row);
}

INLINE int find_rule(const struct mapping *m, __u64 file_addr)
{
	return search_rule(m, file_addr, 0);
}

#endif
