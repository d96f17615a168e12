/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* From an address to the mapping that holds it. */
#ifndef HOSTPROFILES_MAPPING_H
#define HOSTPROFILES_MAPPING_H

#include "maps.h"

#define MAPPING_SEARCH_STEPS 20 /* 2^20 mappings */

/* Makes w->mapping the one that holds addr; non-zero if none does. */
INLINE int search_mapping(struct walk *w, __u64 addr, struct bounds *bounds)
{
	__u32 lo = w->base, hi = w->base + w->count, key;
	struct mapping *m;

	if (likely(addr >= w->mapping.start && addr < w->mapping.end))
		return 0;
	for (int i = 0; i < MAPPING_SEARCH_STEPS; i++) {
		if (lo >= hi)
			break;
		__u32 mid = lo + ((hi - lo) >> 1);
		m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			return -1;
		if (m->start <= addr)
			lo = mid + 1;
		else
			hi = mid;
		settle(bounds, &lo, &hi);
	}
	if (lo == w->base)
		return -1;
	key = lo - 1;
	m = bpf_map_lookup_elem(&mappings, &key);
	if (!m || addr < m->start || addr >= m->end)
		return -1;
	w->mapping = *m;
	return 0;
}

INLINE int find_mapping(struct walk *w, __u64 addr)
{
	return search_mapping(w, addr, 0);
}

#endif
