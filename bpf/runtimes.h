/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The only list of runtimes on this side: X(name, number). The number stands in a frame's first
 * word and equals unwind.Runtime.
 */
#ifndef HOSTPROFILES_RUNTIMES_H
#define HOSTPROFILES_RUNTIMES_H

#define RUNTIMES(X) X(native, 0) X(python, 2) X(hotspot, 3) X(v8, 4)

enum runtime {
#define X(name, number) RUNTIME_##name = number,
	RUNTIMES(X)
#undef X
	    RUNTIME_kernel = 1,
};

#endif
