/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* What the kernel provides, and what bpf/host/platform.h provides in its place for the user-space
 * build. */
#ifndef HOSTPROFILES_PLATFORM_H
#define HOSTPROFILES_PLATFORM_H

#ifdef HOSTPROFILES_HOST
#include "../host/platform.h"
#else
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#endif

#include "../abi.h"
#include "../runtimes.h"

/* Keeps clang from reasoning about a value that the verifier cannot follow it in. */
#define opaque(x) asm volatile("" : "+r"(x))

#define unlikely(x) __builtin_expect(!!(x), 0)
#define likely(x) __builtin_expect(!!(x), 1)
#define INLINE static __attribute__((always_inline)) inline

#if defined(__TARGET_ARCH_x86)
#define REG_BX 3
#define REG_FP 6
#define REG_SP 7
#define REG_GENERAL 16
#elif defined(__TARGET_ARCH_arm64)
#define REG_FP 29
#define REG_LR 30
#define REG_SP 31
#define REG_GENERAL 32
#else
#error "unknown architecture"
#endif

#endif
