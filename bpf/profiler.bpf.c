// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* The only translation unit: every trigger, over one walk, over every runtime's unwinder. */
#include "core/platform.h"
#include "core/walk.h"
#include "unwind/native.h"
#include "unwind/python.h"
#include "unwind/hotspot.h"
#include "unwind/v8.h"
#include "trigger/on_cpu.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
