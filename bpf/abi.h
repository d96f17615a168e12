/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Every struct and enum that crosses between kernel and Go. bpf2go generates internal/ebpf/abi from
 * it; the enums that package unwind declares too are compared by a test there.
 */
#ifndef HOSTPROFILES_ABI_H
#define HOSTPROFILES_ABI_H

/* How a frame's CFA is found; unwind.CFAKind says what each means. */
enum cfa_kind {
	CFA_NONE,
	CFA_ROOT,
	CFA_REG,
	CFA_MEM,
	CFA_PLT,
	CFA_SIGNAL,
	CFA_GO_SWITCH,
	CFA_FRAME_POINTER,
};

/* offset2 of a CFA_REG rule; unwind.CFANote says what each means. */
enum cfa_note {
	CFA_NOTE_NONE,
	CFA_NOTE_OTHER_STACK,
	CFA_NOTE_INTERRUPTED,
};

/* Where the return address is; unwind.RAKind. */
enum ra_kind {
	RA_AT_CFA,
	RA_REG,
};

/* Where the caller's value of a register is; unwind.SaveKind. */
enum save_kind {
	SAVE_SAME,
	SAVE_AT_CFA,
	SAVE_AT_FP,
	SAVE_UNDEFINED,
};

/* Why a walk ended; unwind.StopReason. */
enum stop_reason {
	STOP_ROOT,
	STOP_NO_USER,
	STOP_GONE,
	STOP_MAX_FRAMES,
	STOP_TAIL_CALLS,
	STOP_NO_PROCESS,
	STOP_NO_MAPPING,
	STOP_NO_TABLE,
	STOP_NO_RULE,
	STOP_MEMORY,
	STOP_REGISTER,
	STOP_NO_PROGRESS,
	STOP_COPY_END,
	STOP_ABI,
	STOP_STALE,
	STOP_RUNTIME,
	STOP_RING_BUSY,
	STOP_ELSEWHERE,
	STOP_NO_UNWIND_INFO,
};

/*
 * A frame's first word carries its runtime and flags above the address: user addresses have at most
 * 52 bits. Frames of native code and of the kernel have one word, those of the other runtimes a
 * second one, of which each says what it means.
 */
enum frame_word {
	FRAME_ADDR_BITS = 56,
	FRAME_FLAG_BITS = 3, /* above the address; the runtime stands above the flags */
	FRAME_RETURN = 1,    /* unwind.FrameReturn */
	FRAME_GUESSED = 2,   /* unwind.FrameGuessed */
};

enum limits {
	MAX_KERNEL_FRAMES = 127, /* kernel.perf_event_max_stack's default */
	MAX_USER_FRAMES = 1024,
	FRAME_WORDS = 2304,       /* of a record at most: all frames, and registers */
	FRAME_MASK = 4095,        /* fewer than a record's words: for the verifier */
	STACK_COPY_BYTES = 61440, /* and at most a chunk more */
	COPY_CHUNK = 4096,        /* unwind.CopyChunk */
	COPY_CHUNKS = 32,         /* unwind.CopyChunks; that are looked at: bits of sample.copied */
	COPY_SKIPS = 8,           /* chunks in a row that can't be read and are passed over */
	WAKE_INTERVAL = 5000000,  /* ns between wake-ups of a CPU for unknown processes or tables */
	NUM_REGS = 32,

	/* unwind.GuessWords and so on; MIN is for VARIANT_TAIL */
	GUESS_WORDS = 32,
	GUESS_MAX_CHUNKS = 2,
	GUESS_MIN_CHUNKS = 1,
	GUESS_MAX_TRIES = 8,
	GUESS_MIN_TRIES = 3,
	GUESS_SEARCHES = 64, /* of the stack, in one walk */
	GUESS_NEAR = 1 << 20,
	GUESS_CODE = 256,
	GUESS_EXITS = 4,
	GUESS_TOKENS = 8,
	GUESS_RETURNS = 8,

	BLOCK_ROWS = 64, /* rows, or entries of the page index, in one block */
	TABLE_PAGE_BITS = 9,
	ROW_RULE_BITS = 20, /* a row: offset in its page above, rule number below */
	MAX_RULES = 65536,
};

/* One step from a frame to its caller; unwind.Rule. 16 bytes. */
struct rule {
	__u8 cfa;
	__u8 reg;
	__u8 ra;
	__u8 save; /* save_kind of the frame pointer, and that of rbx << 4 */
	__s32 offset;
	__s16 offset2;
	__s16 ra_offset;
	__s16 fp_offset;
	__s16 bx_offset;
};

/*
 * A unit of a slab. A table is a run of blocks: one go_table, the page index (number of the first
 * row of each page of 1 << TABLE_PAGE_BITS bytes, and one more), then the rows. A page's first row
 * has offset 0.
 */
struct block {
	__u32 row[BLOCK_ROWS];
};

/*
 * The first block of every table: what a Go executable's stack switches need (gopclntab.Offsets
 * says what each is). Offsets in bytes; without g_m there is no Go.
 */
struct go_table {
	__s64 tls_g;
	__u64 tls_got; /* ELF virtual address of the word that holds tls_g; 0: tls_g itself */
	__u32 g_m;
	__u32 m_curg;
	__u32 m_g0;
	__u32 sched_sp;
	__u32 sched_pc;
	__u32 sched_fp;
	__u32 sched_lr;
	__u32 g_reg;
	__u32 m_gsignal;
	__u32 g_stack_hi;
	__u32 reserved[2];
};

enum mapping_flag {
	MAPPING_TABLE =
	    1, /* slab, block, page0 and pages are set; without it the table is not there yet */
	MAPPING_NO_TABLE = 2, /* there is no table and will be none: steps are guessed */
};

/* An executable mapping of a process, in the mappings slab. */
struct mapping {
	__u64 start;
	__u64 end;
	__u64 bias; /* address - bias = ELF virtual address */
	__u32 slab;
	__u32 block; /* of the table's first block in the slab */
	__u32 page0; /* ELF virtual address >> TABLE_PAGE_BITS of the table's first page */
	__u32 pages;
	__u16 flags;
	__u8 runtime;     /* the one that owns this code; native: nobody in particular */
	__u8 part;        /* of the runtime's code; 0: the usual one */
	__u32 executable; /* user space's number, for debugging */
};

/* What BPF knows of a process, by pid in the initial pid namespace. */
struct process {
	__u64 generation; /* differs for every update of any process */
	__u64 start_time; /* the group leader's start_boottime, ns */
	__u32 exec_id;    /* task_struct.self_exec_id */
	__u32 base;       /* first of its mappings, sorted by start */
	__u32 count;
	__u32 pid;
};

/* Whose the state of a language runtime is: as in struct process. */
struct runtime_owner {
	__u64 start_time;
	__u32 exec_id;
	__u32 reserved;
};

/* Where a thread finds the state that CPython keeps of it. */
enum python_thread {
	PYTHON_THREAD_KEY, /* by a key of pthread_key_create */
	PYTHON_THREAD_TLS, /* in a thread-local variable at a fixed distance from the thread pointer
			    */
	PYTHON_THREAD_DTV, /* in one of a module that was loaded later */
	PYTHON_THREAD_NONE, /* nowhere: only the thread that has the GIL is known */
};

enum python_flag {
	PYTHON_LINKED = 1, /* up to 3.10: a native frame evaluates one frame */
	PYTHON_CFRAME = 2, /* the thread state points to a struct on the stack that has the frame */
	PYTHON_ENTRY = 4,  /* 3.11: the frame that a native one was entered with is marked */
	PYTHON_SHIM = 8,   /* from 3.12 on: behind it is one that lies in the native one's stack */
	PYTHON_TLBC = 16,  /* without the GIL, from 3.14 on: threads have copies of the code */
	PYTHON_BARE_KEY = 32, /* up to 3.6: the key comes alone */
	PYTHON_TAIL = 64,     /* the loop is many functions, which jump to each other */
};

enum python_limits {
	PYTHON_FRAME_WORDS = 32, /* that may be read of a frame */
	PYTHON_MAX_COPY = 1 << 16,
	PYTHON_MAX_KEY = 1024, /* PTHREAD_KEYS_MAX of glibc; musl has 128 */
	PYTHON_ENTRY_BYTES =
	    4096, /* the most of the function's frame that calls the first of those */
};

/* CPython in a process; offsets are in bytes. */
struct python_proc {
	__u64 current; /* up to 3.11: address of the pointer to the state of the thread that has the
			  GIL; 0: there is none */
	__u64 key;     /* address of the key */
	__s64 thread_offset; /* of the state: TLS: from the thread pointer; DTV: in the module's
				block; KEY: libc.Threads.Table */
	__s32 dtv_offset;    /* of the dynamic thread vector's address, from the thread pointer */
	__u32 dtv_slot;      /* in that */
	__u8 block_bits;     /* libc.Threads */
	__u8 stride;
	__u8 value;
	__u8 thread; /* python_thread */
	__u8 flags;  /* python_flag */
	__u8 shim;   /* owners from this one on are no Python frames */
	__u8 code_tag;
	__u8 state_words;  /* to read of the thread state: less than PYTHON_FRAME_WORDS */
	__s32 self;        /* pthread_self() from the thread pointer */
	__u16 state_self;  /* of what pthread_self() said, in the thread state */
	__u16 state_frame; /* of the frame or cframe in the thread state */
	__u16 cframe_frame;
	__u16 cframe_previous;
	__u16 frame_bytes; /* to read of a frame: less than 8 * PYTHON_FRAME_WORDS */
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_at;    /* LINKED: an int, else a pointer */
	__u16 frame_owner; /* or whether it is an entry */
	__u16 frame_copy;  /* TLBC: of the number of the thread's copy, an int */
	__u16 code_names;  /* four words there tell code objects apart */
	__u16 code_bytes;  /* of the first instruction */
	__u16 code_copies; /* TLBC: of the address of the copies: how many, and their addresses */
	__u16 reserved[3];
};

/* What the second word of one of HotSpot's frames says, in bits of the first word above the address
 * of HOTSPOT_ADDR_BITS. */
enum hotspot_kind {
	/* address of the nmethod; below the number of the compilation, and the pc from where the
	   code begins */
	HOTSPOT_COMPILED,
	/* address of the Method; below the index of the bytecode, and the address of the
	 * ConstMethod
	 */
	HOTSPOT_INTERPRETED,
	/* address of the CodeBlob; that of its name */
	HOTSPOT_STUB,
	HOTSPOT_LEAF = 4, /* with the others: the pc is no return address */
};

enum hotspot_flag {
	HOTSPOT_KINDS = 1, /* blobs have a kind, else their names tell */
	HOTSPOT_CODE_POINTER =
	    2, /* where code begins is an address, else an offset from the blob */
	HOTSPOT_DEOPT_POINTER = 4,  /* so is where deoptimization begins */
	HOTSPOT_SHORT_COMPLETE = 8, /* frame_complete has two bytes */
	HOTSPOT_BCI = 16, /* what is small where the address of a bytecode should be is its index */
	HOTSPOT_DEOPT_MH = 32, /* there is another place for calls of method handles */
};

enum hotspot_limits {
	HOTSPOT_HEAPS = 4,
	HOTSPOT_HEAD_WORDS = 64,  /* more than is read of a blob */
	HOTSPOT_ADDR_BITS = 52,   /* of a frame's first word; HOTSPOT_KIND above */
	HOTSPOT_METHOD_BITS = 48, /* of an interpreted frame's second word; the index above */
	HOTSPOT_NO_BCI = 0xffff,
	HOTSPOT_MAX_FRAME = 1 << 17, /* words */
};

/* One of HotSpot's code heaps. */
struct hotspot_heap {
	__u64 low;
	__u64 high;   /* of what is reserved */
	__u64 segmap; /* a byte for each segment */
	__u32 shift;  /* to the number of a segment */
	__u32 reserved;
};

/*
 * HotSpot in a process. Offsets are in bytes: of a blob, from the header of the block that it is
 * in.
 */
struct hotspot_proc {
	struct hotspot_heap heap[HOTSPOT_HEAPS];
	__u64 low, high; /* of all heaps */
	__u64 interpreter_low, interpreter_high;
	__u64 call_return;               /* where calls of Java from C++ return to */
	__u64 barrier_low, barrier_high; /* code that virtual threads return to */
	__u16 head_bytes;                /* to read of a block: less than 8 * HOTSPOT_HEAD_WORDS */
	__u16 block_bytes;               /* of a block's header */
	__u16 used;
	__u16 name;
	__u16 kind;
	__u16 size;
	__u16 frame_size;
	__u16 frame_complete;
	__u16 code;
	__u16 method;
	__u16 compile_id;
	__u16 orig_pc;
	__u16 deopt;
	__u16 deopt_mh;
	__u16 method_const; /* of the ConstMethod's address in a Method */
	__u16 const_bytes;  /* of a ConstMethod; the bytecodes follow */
	__u8 flags;         /* hotspot_flag */
	__u8 nmethod_kind;
	__u8 bcp;          /* where an interpreted frame has it, in words below the frame pointer */
	__u8 frame_words;  /* of a whole interpreted frame, below the frame pointer */
	__u32 entry_bytes; /* of a ContinuationEntry with what aligns it; 0 if there is none */
};

/* Which code of V8's a mapping holds: struct mapping's part. */
enum v8_part {
	V8_GENERATED, /* in anonymous memory */
	V8_BUILTIN,   /* the embedded builtins, of the file or mapped once more */
	V8_HANDLER,   /* those that run one bytecode each */
};

/* A frame of V8's: what its first word has above the address, and what is in the second. */
enum v8_frame {
	V8_FRAME_SHIFT = 52, /* user addresses have at most so many bits */
	/* address: SharedFunctionInfo. The lower half: where the interpreter is in the bytecode, as
	 * its frame says it; the upper: v8_check of the function. */
	V8_FRAME_INTERPRETED = 1,
	/* address: SharedFunctionInfo. The lower 48 bits: pc; above: v8_check of the function, and
	 * of the code in generated code. */
	V8_FRAME_FUNCTION = 2,
	/* address: pc. The lower half: what V8 says the frame is, 0 if nothing; the upper: v8_check
	 * of generated code. */
	V8_FRAME_CODE = 3,
	V8_FRAME_EXACT = 8, /* added: pc is no return address */
	V8_PC_BITS = 48,
};

enum v8_limits {
	V8_SLOTS = 7,         /* words of a frame: five below its frame record, and that */
	V8_MAX_MARKER = 256,  /* V8 has some 30 types of frames, at twice their numbers */
	V8_SPILLS = 24,       /* words of a handler's frame that may say where it is */
	V8_WINDOW = 256,      /* bytes of code that are looked at for a function's start */
	V8_CHECKED_CODE = 16, /* bytes before pc */
	V8_CHECKED_SHARED =
	    3, /* words of a SharedFunctionInfo, the second of which does not count */
};

/* V8 in a process; offsets are in bytes. */
struct v8_proc {
	__u64 interpreter_return; /* ELF virtual address behind the interpreter's only call of a
				     handler */
	__u64 code_map; /* first word of the objects that hold generated code; 0: not known yet */
	__u16 function_shared; /* of the SharedFunctionInfo in a JSFunction */
	__u16 shared_names;    /* of V8_CHECKED_SHARED words in that */
	__u8 array_slot;       /* which of a frame's V8_SLOTS has the bytecode array */
	__u8 offset_slot;      /* and where the interpreter is in it */
	__u8 code_header;      /* bytes of the objects that hold generated code, before that */
	__u8 code_align;       /* of generated code, as a power of two */
};

enum sample_flag {
	SAMPLE_KERNEL_MODE = 1,
	SAMPLE_COPY = 2,          /* struct registers and copy_bytes of stack follow the frames */
	SAMPLE_KERNEL_THREAD = 8, /* a thread of the kernel's own */
	SAMPLE_COPY_FULL = 4,     /* less was copied than was to be: the ring filled up */
};

/* The head of a record in the ring; kernel words, user words, registers and stack copy follow. */
struct sample {
	__u64 time;       /* CLOCK_MONOTONIC, ns */
	__u64 start_time; /* as in struct process */
	__u64 weight;
	__u64 cgroup; /* id of the task's control group in the unified hierarchy; the root's is 1 */
	__u32 pid;    /* in the initial pid namespace */
	__u32 tid;
	__u32 ns_pid; /* in the collector's, 0 if not visible there */
	__u32 ns_tid;
	__u32 exec_id;
	__u32 cpu;
	__u16 kernel_words;
	__u16 user_words;
	__u16 user_frames;
	__u16 copy_bytes;
	__u16 stop_line; /* line of C code at which the walk stopped, 0 at the root */
	__u8 stop;
	__u8 flags;
	__u8 trigger;
	__u8 failed_runtime; /* a language runtime whose frames are missing; native if none's are */
	__u16 failed_line;   /* line of C code that found that out */
	__u32 duration; /* ns from the beginning of the program to the commit, if measure_duration
			   is set */
	__u32 copied;   /* bit i: chunk i of the stack is part of the copy. The first begins at the
			   pending frame's stack pointer, rounded down to 8, the others at
			   multiples of COPY_CHUNK */
	char comm[16];
};

/* The registers of the frame that a walk stopped at, which was not pushed yet. */
struct registers {
	__u64 pc;
	__u64 reg[NUM_REGS];
	__u32 known;
	__u32 flags; /* frame_word flags of the pc */
};

/* Counters of one CPU. */
struct counters {
	__u64 taken;
	__u64 lost_ring;
	__u64 last_wake; /* time of the last wake-up for something unknown, CLOCK_MONOTONIC ns */
	__u64 reserved[5];
};

/* The programs after the first, by their place in the map walk_programs. All but the last are
 * VARIANT_TAIL's. */
enum walk_program {
	WALK_ON,
	/* guesses the caller of the frame that was pushed last, and walks on: on_cpu_guess, or
	 * on_cpu_by_fp if the verifier refuses that */
	WALK_GUESS,
	WALK_SEARCH,  /* the same, if the code did not tell */
	WALK_RUNTIME, /* and from here on by the numbers of language runtimes: those' unwinders */
};

enum trigger {
	TRIGGER_ON_CPU,
};

#endif
