// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * The host build as a libFuzzer target: maps, registers and memory are the input's, whatever they
 * are. Sanitizers watch the walk; check_record() and check_counters() watch what it says.
 *
 * The input is struct input_head, then what it counts, in this order: rules, blocks, mappings,
 * stack, code, and what is known of CPython, HotSpot and V8 if there are any. What the input is too
 * short for is zero. scripts/fuzz.sh builds and runs it, from the inputs in testdata/fuzz/walk on.
 */
#define HOST_FUZZ
#include "host.c"

#define STACK_AT 0x7ffc00001000ull
#define CODE_AT 0x555500000000ull
#define MAPPING_BYTES 0x800 /* of each mapping of a plausible process */
#define MAPPINGS 3
#define PAGE_BYTES (1 << TABLE_PAGE_BITS)
#define PAGES (MAPPING_BYTES / PAGE_BYTES)
#define ROW_BYTES 32       /* of code, with the same rule in a plausible table */
#define PATTERN_BYTES 4096 /* of memory, which is made of it again and again */

enum input_flag {
	INPUT_KERNEL_MODE = 1,
	INPUT_COMPAT = 2,
	INPUT_NO_MM = 4,
	INPUT_IN_EXEC = 8,
	INPUT_RING_FULL = 16,
	INPUT_RAW_TABLES = 32,   /* blocks are the input's bytes, and not one plausible table */
	INPUT_RAW_MAPPINGS = 64, /* mappings and the process are */
	INPUT_UNKNOWN = 128,     /* the process */
};

struct input_head {
	__u8 flags;
	__u8 kernel_frames;
	__u8 rules;
	__u8 blocks;
	__u8 mappings;
	__u8 mapping_flags; /* of plausible mappings, two bits for each */
	__u16 max_frames;
	__u16 stack, code; /* bytes */
	__u32 ring_fill;
	__u32 task_flags;
	__u8 ns_level;
	__u8 python;  /* which plausible mappings are CPython's, one bit for each, and then which of
			 these are parts */
	__u8 hotspot; /* which are HotSpot's */
	__u8 v8;      /* which are V8's, and then which are parts, as of python */
	__u8 reserved;
	__u64 reg[32];
	__u64 pc;
	__u64 thread_pointer;
	__u8 row_rules[MAPPING_BYTES / ROW_BYTES]; /* of a plausible table */
	struct go_table golang;
};

static const unsigned char *input;
static size_t input_left;

static void take_input(void *dst, size_t size)
{
	size_t have = size < input_left ? size : input_left;

	memset(dst, 0, size);
	memcpy(dst, input, have);
	input += have;
	input_left -= have;
}

/* Words that begin with 5a or c0 are addresses of the stack and of code: no mutation would find
 * these. */
static __u64 word(__u64 v)
{
	switch (v >> 56) {
	case 0x5a:
		return STACK_AT + (v & 0xffff);
	case 0xc0:
		return CODE_AT + (v & 0x1fff);
	}
	return v;
}

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "fuzz: %s\n", what);
		abort();
	}
}

static int records;

/* A record says itself how long its parts are. */
static void check_record(const unsigned char *bytes, __u64 size)
{
	struct sample s;
	__u64 words, rest, frames = 0;

	check(size >= sizeof(s), "a record without its head");
	memcpy(&s, bytes, sizeof(s));
	words = s.kernel_words + (__u64)s.user_words;
	check(s.kernel_words <= MAX_KERNEL_FRAMES, "too many kernel frames");
	check(s.user_frames <= max_frames, "too many frames");
	check(s.stop <= STOP_NO_UNWIND_INFO, "no such reason");
	check(size >= sizeof(s) + 8 * words, "a record shorter than it says");
	rest = size - sizeof(s) - 8 * words;
	if (s.flags & SAMPLE_COPY && rest)
		check(rest == sizeof(struct registers) + s.copy_bytes, "a copy of another size");
	else
		check(!rest, "bytes behind the frames");
	check(s.copy_bytes <= STACK_COPY_BYTES + COPY_CHUNK - 8, "a copy that is too large");
	check(s.copy_bytes <= COPY_CHUNK * __builtin_popcount(s.copied) &&
		  !s.copy_bytes == !s.copied,
	      "a copy of other chunks");
	for (__u64 i = 0; i < s.user_words; frames++) {
		__u64 w, runtime;

		memcpy(&w, bytes + sizeof(s) + 8 * (s.kernel_words + i), sizeof(w));
		runtime = w >> (FRAME_ADDR_BITS + FRAME_FLAG_BITS);
		check(runtime == RUNTIME_native || runtime == RUNTIME_python ||
			  runtime == RUNTIME_hotspot || runtime == RUNTIME_v8,
		      "a frame of no runtime");
		i += runtime == RUNTIME_native ? 1 : 2;
		check(i <= s.user_words, "a frame that lacks a word");
	}
	check(frames == s.user_frames, "words that are no frames");
}

static void reply(const char *name, __u64 index, const void *bytes, __u64 size)
{
	(void)index;
	if (strcmp(name, "record"))
		return;
	records++;
	check_record(bytes, size);
}

/* Every event is taken, and is in a record or lost. */
static void check_counters(void)
{
	const struct counters *c = (const void *)array_named("cpu_counters")->values;
	__u64 taken = 0, lost = 0;

	for (int i = 0; i < CPUS; i++) {
		taken += c[i].taken;
		lost += c[i].lost_ring;
	}
	check(taken == 1 && taken == records + lost, "a sample that vanished");
}

static void put_array(const char *name, __u64 count)
{
	struct array *a = array_named(name);
	unsigned char *values = new_array(count, a->value_size);

	take_input(values, count * a->value_size);
	fill_array(a, values, count * a->value_size);
	free(values);
}

/* One table for all mappings: a page index, and rows of ROW_BYTES. */
static void put_table(const struct input_head *h)
{
	enum { PER_PAGE = PAGE_BYTES / ROW_BYTES, ROWS = PAGES * PER_PAGE };
	struct block blocks[2 + ROWS / BLOCK_ROWS + 1];

	memset(blocks, 0, sizeof(blocks));
	memcpy(&blocks[0], &h->golang, sizeof(h->golang));
	for (int i = 0; i <= PAGES; i++)
		blocks[1].row[i] = i * PER_PAGE;
	for (int i = 0; i < ROWS; i++)
		blocks[2 + i / BLOCK_ROWS].row[i % BLOCK_ROWS] =
		    (__u32)(i % PER_PAGE * ROW_BYTES) << ROW_RULE_BITS | h->row_rules[i];
	fill_array(&slab_arrays[0], blocks, sizeof(blocks));
}

static void put_process(const struct input_head *h)
{
	struct mapping m[MAPPINGS];
	struct process p = {
	    .generation = 1, .start_time = 9, .exec_id = 7, .count = MAPPINGS, .pid = 1};

	memset(m, 0, sizeof(m));
	for (int i = 0; i < MAPPINGS; i++) {
		m[i].start = CODE_AT + i * MAPPING_BYTES;
		m[i].end = m[i].start + MAPPING_BYTES;
		m[i].bias = m[i].start - PAGE_BYTES;
		m[i].page0 = 1;
		m[i].pages = PAGES;
		m[i].flags = h->mapping_flags >> 2 * i & 3;
		if (h->python >> i & 1) {
			m[i].runtime = RUNTIME_python;
			m[i].part = h->python >> (4 + i) & 1;
		} else if (h->hotspot >> i & 1) {
			m[i].runtime = RUNTIME_hotspot;
		} else if (h->v8 >> i & 1) {
			m[i].runtime = RUNTIME_v8;
			m[i].part = h->v8 >> (4 + i) & 1 ? 1 + i % 2 : 0;
		}
	}
	fill_array(array_named("mappings"), m, sizeof(m));
	fill_array(array_named("processes"), &p, sizeof(p));
}

/* A process of the input's own, whose pid and times let it be found. */
static void put_raw_process(const struct input_head *h)
{
	struct process *p;

	put_array("mappings", h->mappings % 16);
	put_array("processes", 1);
	p = (struct process *)array_named("processes")->values;
	p->pid = 1;
	p->start_time = 9;
	p->exec_id = 7;
}

static void put_memory(__u64 at, size_t size)
{
	unsigned char *bytes = new_array(1, size);
	size_t own = size < PATTERN_BYTES ? size : PATTERN_BYTES;

	take_input(bytes, own);
	for (size_t i = 0; at == STACK_AT && i + 8 <= own; i += 8) {
		__u64 w;

		memcpy(&w, bytes + i, sizeof(w));
		w = word(w);
		memcpy(bytes + i, &w, sizeof(w));
	}
	for (size_t i = own; i < size; i += own)
		memcpy(bytes + i, bytes, size - i < own ? size - i : own);
	add_range(at, bytes, size);
	free(bytes);
}

static void put_python(void)
{
	struct python_value v = {.owner = {.start_time = 9, .exec_id = 7}};

	take_input(&v.proc, sizeof(v.proc));
	v.proc.current = word(v.proc.current);
	v.proc.key = word(v.proc.key);
	fill_array(array_named("python_procs"), &v, sizeof(v));
}

/* The code heaps are anywhere in the stack and in code, where the segment maps are, too. */
static void put_hotspot(void)
{
	struct hotspot_value v = {.owner = {.start_time = 9, .exec_id = 7}};
	struct hotspot_proc *p = &v.proc;
	__u64 *places[] = {
	    &p->low,         &p->high,        &p->interpreter_low, &p->interpreter_high,
	    &p->call_return, &p->barrier_low, &p->barrier_high};

	take_input(p, sizeof(*p));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		*places[i] = word(*places[i]);
	for (int i = 0; i < HOTSPOT_HEAPS; i++) {
		p->heap[i].low = word(p->heap[i].low);
		p->heap[i].high = word(p->heap[i].high);
		p->heap[i].segmap = word(p->heap[i].segmap);
	}
	fill_array(array_named("hotspot_procs"), &v, sizeof(v));
}

static void put_v8(void)
{
	struct v8_value v = {.owner = {.start_time = 9, .exec_id = 7}};

	take_input(&v.proc, sizeof(v.proc));
	fill_array(array_named("v8_procs"), &v, sizeof(v));
}

static void put_maps(const struct input_head *h)
{
	clear();
	put_array("rules", h->rules);
	slab_arrays[0].value_size = sizeof(struct block);
	if (h->flags & INPUT_RAW_TABLES) {
		size_t bytes = h->blocks % 16 * sizeof(struct block);
		unsigned char *raw = new_array(1, bytes);

		take_input(raw, bytes);
		fill_array(&slab_arrays[0], raw, bytes);
		free(raw);
	} else {
		put_table(h);
	}
	if (h->flags & INPUT_RAW_MAPPINGS)
		put_raw_process(h);
	else
		put_process(h);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct {
		struct host_sample s;
		__u64 kernel[MAX_KERNEL_FRAMES];
	} sample;
	struct host_sample *s = &sample.s;
	struct input_head h;

	input = data;
	input_left = size;
	take_input(&h, sizeof(h));
	put_maps(&h);
	forget_memory();
	put_memory(STACK_AT, h.stack);
	put_memory(CODE_AT, h.code);
	if (h.python)
		put_python();
	if (h.hotspot)
		put_hotspot();
	if (h.v8)
		put_v8();

	memset(&sample, 0, sizeof(sample));
	for (int i = 0; i < 32; i++)
		s->reg[i] = word(h.reg[i]);
	s->pc = word(h.pc);
	s->thread_pointer = word(h.thread_pointer);
	s->start_time = 9;
	s->time = 1;
	s->ring_fill = h.ring_fill;
	s->pid = 1;
	s->tid = 2;
	s->ns_level = h.ns_level % (HOST_NS_LEVELS + 1);
	s->exec_id = 7 + !!(h.flags & INPUT_UNKNOWN);
	s->task_flags = h.task_flags;
	s->kernel_mode = !!(h.flags & INPUT_KERNEL_MODE);
	s->kernel_frames = s->kernel_mode ? h.kernel_frames % (MAX_KERNEL_FRAMES + 1) : 0;
	s->compat = !!(h.flags & INPUT_COMPAT);
	s->no_mm = !!(h.flags & INPUT_NO_MM);
	s->in_exec = !!(h.flags & INPUT_IN_EXEC);
	s->ring_full = !!(h.flags & INPUT_RING_FULL);
	set_constant("max_frames", 1 + h.max_frames % MAX_USER_FRAMES);
	records = 0;
	take_sample(&sample, sizeof(*s) + 8 * s->kernel_frames);
	check_counters();
	return 0;
}
