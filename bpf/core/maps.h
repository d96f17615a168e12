/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* The maps. User space sets the sizes marked as such before loading. */
#ifndef HOSTPROFILES_MAPS_H
#define HOSTPROFILES_MAPS_H

#include "platform.h"

#define WINDOW_WORDS 32
#define HOTSPOT_SLOTS 32
#define HOTSPOT_CODE_WORDS 16  /* around pc */
#define HOTSPOT_CODE_BEFORE 12 /* of them */

/*
 * The bounds of a binary search: with a place in memory the verifier forgets at each step what it
 * knows of them, and looks at one way through the loop instead of at many. That costs time.
 */
struct bounds {
	__u32 lo, hi;
};

INLINE void settle(struct bounds *memory, __u32 *lo, __u32 *hi)
{
	if (!memory)
		return;
	memory->lo = *lo;
	memory->hi = *hi;
	asm volatile("" ::: "memory");
	*lo = memory->lo;
	*hi = memory->hi;
}

/* The state of one walk. regs describe the frame at pc, which is not pushed yet. */
struct walk {
	__u64 pc;
	__u64 regs[NUM_REGS]; /* by DWARF number */
	__u32 known;          /* bit n: regs[n] is valid */
	__u32 lazy;           /* bit n: regs[n] is the address that holds the value */
	__u32 flags;          /* frame_word flags of pc */
	__u32 frames;
	__u32 words; /* used in record.words */
	__u32 max_frames;
	__u32 stop;
	__u32 stop_line;
	__u32 switched; /* to a goroutine's stack; once is enough */
	__u32 searches; /* of the stack, for callers of code without unwind information */
	__u32 runtime;  /* whose step is next */
	__u32 hidden;   /* the frame at pc is not pushed: a runtime's own frames stand for it */
	__u32 calls;    /* VARIANT_LOOP: of the loop's callback, STEPS_A_CALL steps each */
	__u32 base;     /* the process's mappings */
	__u32 count;
	struct mapping mapping; /* the one that the last frame was in */
	__u64 window_bytes;     /* valid in window: all or none */
	__u64 window_start;     /* of the stack that is in window; see read_stack() */
	__u64 window[WINDOW_WORDS];
};

/* What was read of an epilogue, backwards from its return, and what an exit says that was found. */
enum run {
	RUN_NONE,
	RUN_POPS,
	RUN_WHOLE,
	RUN_BY_FP,
};

enum exit_kind {
	EXIT_BY_SP,
	EXIT_BY_FP,
	EXIT_BARE, /* a byte that is a return, or part of something else */
	EXIT_LEAF, /* nothing says so: there may be no frame at all */
};

/* What a step through code without unwind information needs to remember. */
struct guess {
	__u64 start, end;  /* of the mapping that pc is in */
	__u64 fp, pair[2]; /* the frame pointer, and the frame record there */
	__u64 cfa;    /* of the caller graded last, if its rule bases it on the stack pointer */
	__u64 target; /* of the call looked at last */
	__u32 table;  /* the mapping has one, without a row for pc or with one that is of no use */
	__u32 reason; /* to stop if nothing is found; 0 if it is that there is no rule */
	__u32 exact_sp; /* arm64: the caller's stack pointer is the one that is known */
	int has_fp, record, chain, sound, step;
	int number, call, where;
	struct bounds bounds;
	__u64 cursor, limit; /* of the scan */
	__u32 words_read, grading, kind, restored;
	__u64 slot, ra, caller_fp; /* of an exit */
	__u32 found;               /* words that may be return addresses */
	__u32 places[GUESS_RETURNS];
	/* exits.h */
	__u32 exact;  /* pc is no return address */
	__s32 offset; /* of the return address from the stack pointer, if pc's instruction tells */
	__u32 code_read, rest;
	__u32 at, run, bare, exits;
	__u32 pushed;  /* that the rest of the prologue will push */
	__u32 framing; /* it will set the frame pointer */
	__s32 size, fp_at;
	struct {
		__s32 size;  /* from the stack pointer to the return address */
		__s32 fp_at; /* where the frame pointer was saved; -1: nowhere */
		__u32 kind;
	} exit[GUESS_EXITS];
	__u64 words[GUESS_WORDS];
	__u8 code[GUESS_CODE + 8];
};

/* The state of a walk through CPython's frames. */
struct python_walk {
	__u32 known;  /* frame is */
	__u32 inside; /* at the frames of a native one */
	__u64 frame;  /* the next */
	__u64 cframe; /* the innermost native frame's that has not been left */
	/* of the native frame */
	__u64 pc;
	__u64 sp;  /* 0 if it is not known */
	__u64 cfa; /* ~0 if it is not known */
	__u32 pc_flags;
	__u32 part;
	int after; /* what the step from it to its caller returned */
	/* before its first frame */
	__u32 first_words;
	__u32 first_frames;
	__u64 first;
	__u64 names[4];
	__u64 words[PYTHON_FRAME_WORDS];
};

/* The state of a step through HotSpot's frames. */
struct hotspot_walk {
	/* of the blob at pc */
	__u64 blob;
	__u64 code; /* where that begins */
	__u64 name;
	__u64 kind; /* or the name's first 8 bytes */
	__u32 nmethod;
	__s32 frame_size; /* words */
	__s32 frame_complete;
	__u32 offset; /* of pc from code */
	/* found in the segment map */
	__u64 segment;
	__u8 hop;
	__u8 reserved[7];
	int done;
	__u32 found;                /* places where the return address may be */
	__u64 slot[HOTSPOT_SLOTS];  /* 0: it is in the link register */
	__u64 saved[HOTSPOT_SLOTS]; /* the caller's frame pointer; 0: it is the frame's */
	__u64 cfa[HOTSPOT_SLOTS];
	__u64 ra;
	__u64 text[HOTSPOT_CODE_WORDS]; /* the code around pc */
	__u64 words[HOTSPOT_HEAD_WORDS];
};

/* What is read of a frame of V8's. */
struct v8_walk {
	__u64 slots[V8_SLOTS];
	__u64 shared[V8_CHECKED_SHARED];
	__u64 code[V8_CHECKED_CODE / 8];
	__u64 ra;                     /* of a leaf without a frame, if it is not among them */
	__u64 top[2];                 /* of the stack */
	__u64 spilled[V8_SPILLS + 1]; /* by a handler, and the register that it is about */
	__u64 window[V8_WINDOW / 8];  /* of code */
	__u32 depth;                  /* of the return address, for a leaf without a frame */
	__u32 bytecode;               /* where the interpreter is, if it is not in its frame */
	__u8 bytes[8];
};

/* The state of the copying of a stack: in memory, so that the verifier knows as little of it. */
struct stack_copy {
	__u64 addr;
	__u32 at; /* in record.words */
	__u32 bytes;
	__u32 skipped; /* chunks in a row */
};

struct record {
	struct sample sample;
	__u64 words[FRAME_WORDS + (STACK_COPY_BYTES + COPY_CHUNK) / 8];
};

/*
 * What does not fit BPF's own stack: 512 bytes for a program and all that it calls together.
 * user_regs is a struct saved_regs, whose layout is the architecture's.
 */
struct scratch {
	struct walk walk;
	__u64 user_regs[34];
	struct guess guess;
	struct python_walk python;
	struct hotspot_walk hotspot;
	struct v8_walk v8;
	struct stack_copy copy;
	struct record record;
};

/* One per possible CPU (set by user space); a per-CPU map's values are limited to 32 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* One per possible CPU (set by user space), read through a memory mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} cpu_counters SEC(".maps");

/* Size set by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* Size set by user space; perf_event programs may only use preallocated hashes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/* All processes' mappings; size set by user space, written through a memory mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct mapping);
} mappings SEC(".maps");

/* Rules of all tables, each distinct one once; number 0 is CFA_NONE. Written through a memory
 * mapping. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

struct slab {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block);
};

/* Tables of executables. A slab holds many small tables or one large one: inserting a map waits for
 * RCU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__array(values, struct slab);
} slabs SEC(".maps");

/* Set by user space before loading. */
volatile const __u32 max_frames = MAX_USER_FRAMES;
volatile const __u32 ring_wake_bytes = 1 << 19; /* wake the reader above this fill */
volatile const __u32 ring_copy_bytes = 1 << 19; /* no stack copies above this fill */
volatile const __u32 pid_ns_inode = 0; /* of the collector's pid namespace; 0: the initial one */
/* for benchmarks: samples carry how long they took */
volatile const __u32 measure_duration = 0;
/* for benchmarks: 0 leaves the kernel's part of stacks out */
volatile const __u32 kernel_stacks = 1;
/* VARIANT_LOOP: 0 where the verifier refuses guess_step, which is not there then */
volatile const __u32 guesses = 1;
/* THREAD_SIZE: BTF does not tell it; only VARIANT_TAIL needs it */
volatile const __u32 kernel_stack_bytes = 16384;

/* BTF has a type only if something uses it; Go needs these from there. */
struct abi_types {
	struct registers registers;
	struct go_table go_table;
	struct block block;
	enum cfa_kind cfa_kind;
	enum cfa_note cfa_note;
	enum ra_kind ra_kind;
	enum save_kind save_kind;
	enum stop_reason stop_reason;
	enum frame_word frame_word;
	enum limits limits;
	enum mapping_flag mapping_flag;
	enum sample_flag sample_flag;
	enum trigger trigger;
	enum walk_program walk_program;
	enum runtime runtime;
	enum python_thread python_thread;
	enum python_flag python_flag;
	enum python_limits python_limits;
	enum hotspot_kind hotspot_kind;
	enum hotspot_flag hotspot_flag;
	enum hotspot_limits hotspot_limits;
	enum v8_part v8_part;
	enum v8_frame v8_frame;
	enum v8_limits v8_limits;
};
const struct abi_types *abi_types __attribute__((unused));

#endif
