// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * The profiler as a program of user space. Maps, constants and the memory of the profiled process
 * come as messages on standard input; so does each sample, and what would have gone into the ring
 * is the answer on standard output. internal/unwind/hostbpf is the other side. Whatever is wrong
 * with a message ends the program with a line on standard error. fuzz.c includes this file, and
 * takes messages and answers into its own hands.
 */
#include "../profiler.bpf.c"

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "messages.h"

#define CPUS 2
#define TASK_STACK_BYTES 16384
#define MAX_TAIL_CALLS 33 /* include/linux/bpf.h, Linux 5.10 to 6.18 */

static void die(const char *what, const char *name)
{
	fprintf(stderr, "host: %s: %s\n", what, name);
	exit(1);
}

static void *new_array(__u64 count, __u64 size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		die("out of memory", "");
	return p;
}

/* An array map, or the only element of a hash. The values are of exactly the map's size: sanitizers
 * see what is beyond. */
struct array {
	const char *name;
	void *map;
	__u32 value_size;
	__u32 count;
	unsigned char *values;
};

#define ARRAY(map) {#map, &map, sizeof(*map.value), 0, NULL}

static struct array arrays[] = {
    ARRAY(scratches), ARRAY(cpu_counters), ARRAY(processes),     ARRAY(mappings),
    ARRAY(rules),     ARRAY(python_procs), ARRAY(hotspot_procs), ARRAY(v8_procs),
};

static struct array slab_arrays[HOST_SLABS];

static struct array *array_named(const char *name)
{
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		if (!strcmp(arrays[i].name, name))
			return &arrays[i];
	return NULL;
}

static void fill_array(struct array *a, const void *values, __u64 bytes)
{
	if (bytes % a->value_size)
		die("not a whole number of values", a->name ? a->name : "slab");
	free(a->values);
	a->count = bytes / a->value_size;
	a->values = new_array(a->count, a->value_size);
	memcpy(a->values, values, bytes);
}

/* Lookups in maps and reads of user memory of the sample that is being taken. */
static __u64 helper_calls;

void *bpf_map_lookup_elem(void *map, const void *key)
{
	struct array *a = NULL;
	__u32 index;

	helper_calls++;
	memcpy(&index, key, sizeof(index));
	if (map == &slabs) /* the inner map */
		return index < HOST_SLABS && slab_arrays[index].values ? &slab_arrays[index] : NULL;
	if (map == &processes) {
		a = array_named("processes");
		return a->count && ((struct process *)a->values)->pid == index ? a->values : NULL;
	}
	if (map == &python_procs || map == &hotspot_procs || map == &v8_procs)
		index = 0; /* of the only process */
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		if (arrays[i].map == map)
			a = &arrays[i];
	if (!a)
		a = map;
	return index < a->count ? a->values + (size_t)index * a->value_size : NULL;
}

/* The constants of core/maps.h, which user space sets before loading. */
static const struct constant {
	const char *name;
	volatile const __u32 *value;
} constants[] = {
    {"max_frames", &max_frames},
    {"ring_wake_bytes", &ring_wake_bytes},
    {"ring_copy_bytes", &ring_copy_bytes},
    {"pid_ns_inode", &pid_ns_inode},
    {"guesses", &guesses},
};

static int set_constant(const char *name, __u32 value)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		volatile __u32 *p = (volatile __u32 *)constants[i].value;

		if (strcmp(constants[i].name, name))
			continue;
		if (mprotect((void *)((uintptr_t)p & ~(page - 1)), page, PROT_READ | PROT_WRITE))
			die("making a constant writable", name);
		*p = value;
		return 1;
	}
	return 0;
}

/* What user memory holds, for those reads that it answers; the other side merges neighbours. */
static struct range {
	__u64 addr, size;
	unsigned char *bytes;
} *ranges;
static size_t range_count;

static void add_range(__u64 addr, const void *bytes, __u64 size)
{
	struct range *r;

	ranges = realloc(ranges, (range_count + 1) * sizeof(*ranges));
	if (!ranges)
		die("out of memory", "");
	r = &ranges[range_count++];
	r->addr = addr;
	r->size = size;
	r->bytes = new_array(1, size);
	memcpy(r->bytes, bytes, size);
}

/* The sample that is being taken. */
static struct host_sample now;
static __u64 kernel_frames[MAX_KERNEL_FRAMES];
static struct task_struct task;
static unsigned char task_stack[TASK_STACK_BYTES] __attribute__((aligned(16)));
/* struct pid ends with an array of as many elements as there are levels. */
static struct {
	struct pid pid;
	struct upid more[HOST_NS_LEVELS];
} task_pids[2];
static struct pid_namespace namespaces[HOST_NS_LEVELS + 1];

static void receive(struct message *m, unsigned char **payload)
{
	if (fread(m, sizeof(*m), 1, stdin) != 1)
		exit(0);
	m->name[sizeof(m->name) - 1] = 0;
	*payload = new_array(1, m->size + 1);
	if (m->size && fread(*payload, m->size, 1, stdin) != 1)
		die("a message ends early", m->name);
}

#ifdef HOST_FUZZ
static void reply(const char *name, __u64 index, const void *bytes, __u64 size);
#else
static void reply(const char *name, __u64 index, const void *bytes, __u64 size)
{
	struct message m = {.index = index, .size = size};

	strncpy(m.name, name, sizeof(m.name) - 1);
	fwrite(&m, sizeof(m), 1, stdout);
	if (size && bytes)
		fwrite(bytes, size, 1, stdout);
	fflush(stdout);
}
#endif

/* Memory that was not sent: the other side reads it. */
static int ask(void *dst, __u32 size, __u64 addr)
{
	struct message m;
	unsigned char *payload;
	int found;

	reply("read", addr, NULL, size);
	receive(&m, &payload);
	found = m.size == size;
	if (strcmp(m.name, "data") || (!found && m.size))
		die("not an answer", m.name);
	memcpy(dst, payload, m.size);
	free(payload);
	return found;
}

long bpf_probe_read_user(void *dst, __u32 size, const void *addr)
{
	__u64 a = (__u64)(uintptr_t)addr;

	helper_calls++;
	for (size_t i = 0; i < range_count; i++) {
		const struct range *r = &ranges[i];

		if (a >= r->addr && a - r->addr < r->size && size <= r->size - (a - r->addr)) {
			memcpy(dst, r->bytes + (a - r->addr), size);
			return 0;
		}
	}
	if (now.ask && ask(dst, size, a))
		return 0;
	memset(dst, 0, size); /* as the kernel does */
	return -EFAULT;
}

long bpf_probe_read_kernel(void *dst, __u32 size, const void *addr)
{
	memcpy(dst, addr, size);
	return 0;
}

long bpf_loop(__u32 n, void *callback, void *ctx, __u64 flags)
{
	int (*f)(__u32, void *) = callback;
	__u32 i;

	if (flags)
		return -EINVAL;
	if (n > 1 << 23) /* BPF_MAX_LOOPS */
		return -E2BIG;
	for (i = 0; i < n; i++)
		if (f(i, ctx))
			return i + 1;
	return i;
}

#ifdef VARIANT_LOOP
#define NO_CHAIN 1
#else
#define NO_CHAIN 0
#endif

/* A tail call does not return, and the next program has its own stack. */
static jmp_buf next_program;
static int tail_calls;

long bpf_tail_call(void *ctx, void *programs, __u32 index)
{
	(void)ctx;
	(void)programs;
	__u32 runtime = index - WALK_RUNTIME;

	if (index >= WALK_RUNTIME ? runtime < RUNTIME_python || runtime > RUNTIME_v8 : NO_CHAIN)
		return -1; /* nothing is there */
	if (tail_calls++ < MAX_TAIL_CALLS)
		longjmp(next_program, 1 + index);
	return -1;
}

long bpf_ringbuf_output(void *map, void *data, __u64 size, __u64 flags)
{
	(void)map;
	if (now.ring_full)
		return -EAGAIN;
	reply("record", flags, data, size);
	return 0;
}

__u64 bpf_ringbuf_query(void *map, __u64 what)
{
	(void)map;
	return what == BPF_RB_AVAIL_DATA ? now.ring_fill : 0;
}

long bpf_get_stack(void *ctx, void *buf, __u32 size, __u64 flags)
{
	__u32 bytes = now.kernel_frames * 8;

	(void)ctx;
	(void)flags;
	if (bytes > size)
		bytes = size;
	memcpy(buf, kernel_frames, bytes);
	return bytes;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return &task;
}

__u64 bpf_get_current_task(void)
{
	return (__u64)(uintptr_t)&task;
}

static struct saved_regs *task_regs(void)
{
	return (void *)(task_stack + TASK_STACK_BYTES - HOST_PT_REGS_BYTES);
}

long bpf_task_pt_regs(struct task_struct *t)
{
	(void)t;
	return (long)task_regs();
}

__u64 bpf_get_current_cgroup_id(void)
{
	return 1;
}

__u64 bpf_get_current_pid_tgid(void)
{
	return (__u64)now.pid << 32 | now.tid;
}

long bpf_get_current_comm(void *buf, __u32 size)
{
	strncpy(buf, "host", size);
	return 0;
}

__u32 bpf_get_smp_processor_id(void)
{
	return now.cpu;
}

__u64 bpf_ktime_get_ns(void)
{
	return now.time;
}

/* The user registers as the kernel saves them. */
static void user_registers(struct saved_regs *r)
{
	memset(r, 0, sizeof(*r));
#if defined(__TARGET_ARCH_x86)
	__u64 *by_number[REG_GENERAL] = {&r->ax,  &r->dx,  &r->cx,  &r->bx, &r->si,  &r->di,
					 &r->bp,  &r->sp,  &r->r8,  &r->r9, &r->r10, &r->r11,
					 &r->r12, &r->r13, &r->r14, &r->r15};

	for (int i = 0; i < REG_GENERAL; i++)
		*by_number[i] = now.reg[i];
	r->ip = now.pc;
	r->cs = now.compat ? 0x23 : USER_CS;
#else
	memcpy(r->regs, now.reg, sizeof(r->regs));
	r->sp = now.reg[REG_SP];
	r->pc = now.pc;
	r->pstate = now.compat ? PSR_MODE32_BIT : 0;
#endif
}

/* The registers of a sample in kernel mode. */
static void kernel_registers(struct saved_regs *r)
{
	memset(r, 0xee, sizeof(*r));
#if defined(__TARGET_ARCH_x86)
	r->cs = 0x10; /* __KERNEL_CS */
#else
	r->pstate = 5; /* PSR_MODE_EL1h */
#endif
}

/* The task's pid at the deepest level is the one in the collector's pid namespace. */
static void set_pids(int which, __u32 outer, __u32 inner)
{
	struct upid *numbers = task_pids[which].pid.numbers;

	task_pids[which].pid.level = now.ns_level;
	for (__u32 i = 0; i <= now.ns_level; i++) {
		struct upid n = {.nr = i == now.ns_level ? inner : outer, .ns = &namespaces[i]};

		memcpy((char *)numbers + i * sizeof(n), &n, sizeof(n));
		namespaces[i].ns.inum = i == now.ns_level ? now.ns_inode : 1;
	}
}

static void set_task(void)
{
	static struct task_struct leader;
	static char mm;

	memset(&task, 0, sizeof(task));
	memset(&leader, 0, sizeof(leader));
	if (now.ns_level > HOST_NS_LEVELS)
		die("too many pid namespaces", "sample");
	set_pids(0, now.tid, now.ns_tid);
	set_pids(1, now.pid, now.ns_pid);
	leader.start_boottime = now.start_time;
	leader.thread_pid = &task_pids[1].pid;
	leader.group_leader = &leader;
	task.group_leader = &leader;
	task.thread_pid = &task_pids[0].pid;
	task.flags = now.task_flags;
	task.stack = task_stack;
	task.mm = now.no_mm ? NULL : (struct mm_struct *)&mm;
	task.self_exec_id = now.exec_id;
	task.in_execve = now.in_exec;
	task.thread.fsbase = now.thread_pointer;
	task.thread.uw.tp_value = now.thread_pointer;
}

static void take_sample(const void *payload, __u64 size)
{
	struct perf_ctx ctx;

	if (size < sizeof(now))
		die("a sample of the wrong size", "sample");
	memcpy(&now, payload, sizeof(now));
	if (now.kernel_frames > MAX_KERNEL_FRAMES || size != sizeof(now) + 8 * now.kernel_frames)
		die("a sample of the wrong size", "sample");
	memcpy(kernel_frames, (const char *)payload + sizeof(now), 8 * now.kernel_frames);
	set_task();
	user_registers(&ctx.regs);
	user_registers(task_regs());
	if (now.kernel_mode)
		kernel_registers(&ctx.regs);
	tail_calls = 0;
	helper_calls = 0;
	switch (setjmp(next_program)) {
	case 0:
		on_cpu(&ctx);
		break;
#ifndef VARIANT_LOOP
	case 1 + WALK_ON:
		on_cpu_next(&ctx);
		break;
	case 1 + WALK_GUESS:
		if (guesses)
			on_cpu_guess(&ctx);
		else
			on_cpu_by_fp(&ctx);
		break;
	case 1 + WALK_SEARCH:
		on_cpu_search(&ctx);
		break;
#endif
	case 1 + WALK_RUNTIME + RUNTIME_python:
		on_cpu_python(&ctx);
		break;
	case 1 + WALK_RUNTIME + RUNTIME_hotspot:
		on_cpu_hotspot(&ctx);
		break;
	case 1 + WALK_RUNTIME + RUNTIME_v8:
		on_cpu_v8(&ctx);
		break;
	}
	/* the counters say whether there was a record */
	reply("done", helper_calls, array_named("cpu_counters")->values,
	      CPUS * sizeof(struct counters));
}

/* A fresh kernel; only that what walks leave behind is there: they must not depend on it. */
static void clear(void)
{
	struct array *s = array_named("scratches");
	unsigned char *stale = new_array(CPUS, s->value_size);
	unsigned char *zero = new_array(CPUS, sizeof(struct counters));

	memset(stale, 0xa5, CPUS * (size_t)s->value_size);
	fill_array(s, stale, CPUS * (__u64)s->value_size);
	fill_array(array_named("cpu_counters"), zero, CPUS * sizeof(struct counters));
	fill_array(array_named("python_procs"), "", 0);
	fill_array(array_named("hotspot_procs"), "", 0);
	fill_array(array_named("v8_procs"), "", 0);
	free(stale);
	free(zero);
	for (size_t i = 0; i < HOST_SLABS; i++) {
		free(slab_arrays[i].values);
		memset(&slab_arrays[i], 0, sizeof(slab_arrays[i]));
	}
}

static void forget_memory(void)
{
	for (size_t i = 0; i < range_count; i++)
		free(ranges[i].bytes);
	range_count = 0;
}

#ifndef HOST_FUZZ
static void handle(const struct message *m, const unsigned char *payload)
{
	struct array *a = array_named(m->name);

	if (a) {
		fill_array(a, payload, m->size);
	} else if (!strcmp(m->name, "slab")) {
		if (m->index >= HOST_SLABS)
			die("no such slab", m->name);
		slab_arrays[m->index].value_size = sizeof(struct block);
		fill_array(&slab_arrays[m->index], payload, m->size);
	} else if (!strcmp(m->name, "memory")) {
		add_range(m->index, payload, m->size);
	} else if (!strcmp(m->name, "forget")) {
		forget_memory();
	} else if (!strcmp(m->name, "clear")) {
		clear();
	} else if (!strcmp(m->name, "sample")) {
		take_sample(payload, m->size);
	} else if (!set_constant(m->name, m->index)) {
		die("no such message", m->name);
	}
}

int main(void)
{
	clear();
	for (;;) {
		struct message m;
		unsigned char *payload;

		receive(&m, &payload);
		handle(&m, payload);
		free(payload);
	}
}
#endif
