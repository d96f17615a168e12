// The plugin of libs.
#include "frames.h"

BURN(hot_ten)
LEVEL_ALLOCA(plugin_inner, hot_ten)

uint64_t plugin_burn(uint64_t n)
{
	uint64_t r = plugin_inner(n);
	KEEP(r);
	return r;
}
