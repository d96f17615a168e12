/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * V8: whatever it runs, interpreted, compiled or built in, keeps a chain of frame records. The word
 * below the record says what a frame is: even, it is twice the number of the frame's type; odd, it
 * is a context, and the function is below that (V8's src/execution/frame-constants.h, 7.8 to 15.0).
 * Frames are pushed with what tells the function while it is there: functions (JSFunction) move and
 * die within milliseconds, their SharedFunctionInfo hardly ever does. internal/runtimes/v8 says
 * what they are.
 */
#ifndef HOSTPROFILES_V8_H
#define HOSTPROFILES_V8_H

#include "native.h"
#include "runtime.h"

RUNTIME_PROCS(v8)

#define V8_FRAMES_A_PROGRAM 8

/* Where the words of a frame are in v8_walk.slots: the record is its last two. */
#define V8_RECORD (V8_SLOTS - 2)
#define V8_MARKER (V8_SLOTS - 3)
#define V8_FUNCTION (V8_SLOTS - 4)

/* Markers of the two types of frames that C++ enters through; the same in all versions. */
#define V8_ENTRY 2
#define V8_CONSTRUCT_ENTRY 4

/* The registers of the interpreter: src/codegen/{x64/register,arm64/register}-*.h. */
#if defined(__TARGET_ARCH_arm64)
#define V8_REG_OFFSET 19
#define V8_REG_ARRAY 20
#define V8_REG_ARRAY_OLD 20
#define V8_REG_DISPATCH 21
#else
#define V8_REG_OFFSET 9
#define V8_REG_ARRAY 12
#define V8_REG_ARRAY_OLD 14 /* that of 7.8 and 8.4 */
#define V8_REG_DISPATCH 15
#endif

/* Where the interpreter may be in an array of bytecode, in bytes from its tagged address: behind
 * its header. */
#define V8_MIN_OFFSET 32
#define V8_MAX_OFFSET (1 << 20)
#define V8_LONGEST_BUILTIN (1 << 14)
/* The bytecodes that give the next one wider operands, and handlers of its own: each other 256 of
 * the table (src/interpreter/bytecodes.h, interpreter.cc: GetDispatchTableIndex). */
#define V8_WIDE 0
#define V8_EXTRA_WIDE 1
/* How far around where handlers return to the entry trampoline dispatches, its frame complete, in
 * bytes: src/builtins/{x64,arm64}/builtins-*.cc, Generate_InterpreterEntryTrampoline. */
#define V8_DISPATCH_BEFORE 32
#define V8_DISPATCH_AFTER 96
#define V8_DISPATCH_STALE 12 /* so far the registers are not those of the frame yet */
#define V8_SHARED_DATA 8     /* of what a function runs, in a SharedFunctionInfo */
#define V8_PUSHED 6          /* words that a builtin may have pushed, and the return address */
#define V8_FIXED_FRAME 16    /* bytes that frames have below their records at least */
/* How much is read of generated code, and how much of that lies before pc at least. */
#define V8_WINDOW_BEFORE 192

/* Notes that frames of V8's are missing. */
INLINE void no_v8(struct scratch *s, __u32 line)
{
	s->record.sample.failed_runtime = RUNTIME_v8;
	s->record.sample.failed_line = line;
}

/* 32 bits that tell what has these words from what takes its place. internal/runtimes/v8 does the
 * same. */
INLINE __u32 v8_check(__u32 h, __u64 a, __u64 b)
{
	__u64 x = (a ^ h) * 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 29) ^ b) * 0x9e3779b97f4a7c15ull;
	return x >> 32;
}

/* Of the code before pc, if it is generated: code of a function's may take the place of other. */
INLINE __u32 v8_check_code(struct scratch *s, __u32 h)
{
	struct v8_walk *v = &s->v8;

	if (s->walk.mapping.part != V8_GENERATED ||
	    read_user(v->code, sizeof(v->code), s->walk.pc - sizeof(v->code)))
		return h;
	return v8_check(h, v->code[0], v->code[1]);
}

INLINE int v8_push(struct scratch *s, __u64 kind, __u64 address, __u64 second)
{
	if (!(s->walk.flags & FRAME_RETURN))
		kind += V8_FRAME_EXACT;
	address &= (1ull << V8_FRAME_SHIFT) - 1;
	return push_runtime_frame(s, RUNTIME_v8, s->walk.flags, kind << V8_FRAME_SHIFT | address,
				  second);
}

/* The frame of code of which only the address, and perhaps the type of its frame, is known. */
INLINE int v8_push_code(struct scratch *s, __u32 marker)
{
	return v8_push(s, V8_FRAME_CODE, s->walk.pc, (__u64)v8_check_code(s, 0) << 32 | marker);
}

/* True if the handler of a bytecode, by its number in the table, is the one that pc is in. */
INLINE int v8_handles(struct scratch *s, __u32 index)
{
	struct walk *w = &s->walk;
	__u64 handler;

	if (read_user(&handler, sizeof(handler),
		      w->regs[V8_REG_DISPATCH] + sizeof(handler) * index))
		return 0;
	return w->pc - handler < V8_LONGEST_BUILTIN;
}

/* True if the handler that pc is in runs the bytecode there. That of a wide one is behind what says
 * so. */
INLINE int v8_runs(struct scratch *s, __u64 array, __u64 offset)
{
	__u8 code[2];

	if (offset < V8_MIN_OFFSET || offset >= V8_MAX_OFFSET ||
	    read_user(code, sizeof(code), array + offset - 1))
		return 0;
	return v8_handles(s, code[1]) ||
	       (code[0] <= V8_EXTRA_WIDE && v8_handles(s, 256 * (code[0] + 1) + code[1]));
}

/* Where the registers say that the interpreter is, if the array's is not in use for something else.
 * 0 if it is. */
INLINE __u32 v8_in_registers(struct walk *w, __u64 array)
{
	__u64 offset = w->regs[V8_REG_OFFSET];

	if (w->regs[V8_REG_ARRAY] != array && w->regs[V8_REG_ARRAY_OLD] != array)
		return 0;
	return offset >= V8_MIN_OFFSET && offset < V8_MAX_OFFSET ? offset : 0;
}

/* Bytes from where handlers return to, counted from where the entry trampoline begins to dispatch.
 */
INLINE __u64 v8_dispatching(const struct walk *w, const struct v8_proc *p)
{
	return w->pc - w->mapping.bias - p->interpreter_return + V8_DISPATCH_BEFORE;
}

/* Where the interpreter is in the bytecode. Frames have it as of their last call; while a handler
 * runs that calls nothing it is in a register. */
INLINE __u32 v8_bytecode(struct scratch *s, const struct v8_proc *p)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u32 array = p->array_slot & 3, offset = p->offset_slot & 3;

	if (v->bytecode) {
		offset = v->bytecode;
		v->bytecode = 0;
		return offset;
	}
	if (w->flags & FRAME_RETURN ||
	    (w->mapping.part == V8_BUILTIN &&
	     v8_dispatching(w, p) - V8_DISPATCH_BEFORE < V8_DISPATCH_STALE))
		return v->slots[offset] >> 32; /* a Smi */
	/* the array's register may hold something else by then, the frame has it for sure */
	if (w->mapping.part == V8_HANDLER && v8_runs(s, v->slots[array], w->regs[V8_REG_OFFSET]))
		return w->regs[V8_REG_OFFSET];
	/* the next one's, as handlers end: about there; what the frame has is older, and no line is
	 * better than a wrong one */
	return v8_in_registers(w, v->slots[array]);
}

/* Pushes the frame whose slots were read. */
INLINE int v8_push_frame(struct scratch *s, const struct v8_proc *p)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 function = v->slots[V8_FUNCTION], marker = v->slots[V8_MARKER], shared;
	__u32 check;

	if (!(marker & 1))
		return v8_push_code(s, marker < V8_MAX_MARKER ? marker : 0);
	if ((function & 3) != 1 ||
	    read_user(&shared, sizeof(shared), function - 1 + p->function_shared) ||
	    (shared & 3) != 1 ||
	    read_user(v->shared, sizeof(v->shared), shared - 1 + p->shared_names))
		return v8_push_code(s, 0);
	check = v8_check(0, v->shared[0], v->shared[2]);
	if (w->mapping.part == V8_HANDLER ||
	    (w->mapping.part == V8_BUILTIN && p->interpreter_return &&
	     (w->flags & FRAME_RETURN
		  ? v8_dispatching(w, p) == V8_DISPATCH_BEFORE
		  : v8_dispatching(w, p) < V8_DISPATCH_BEFORE + V8_DISPATCH_AFTER)))
		return v8_push(s, V8_FRAME_INTERPRETED, shared,
			       (__u64)check << 32 | v8_bytecode(s, p));
	v->bytecode = 0; /* whose handler's caller this was: none of the interpreter's */
	check = v8_check_code(s, check);
	return v8_push(s, V8_FRAME_FUNCTION, shared,
		       (__u64)check << V8_PC_BITS | (w->pc & ((1ull << V8_PC_BITS) - 1)));
}

/* Makes the walk describe the caller, whose return address is known. */
INLINE int v8_return(struct walk *w, __u64 pc, __u64 fp, __u64 sp)
{
	w->known &= 1u << REG_SP | 1u << REG_FP
#ifdef REG_BX
		    | 1u << REG_BX
#endif
	    ;
	set_reg(w, REG_FP, fp);
	set_reg(w, REG_SP, sp);
	w->pc = strip_pac(pc);
	w->flags = FRAME_RETURN;
	return STEP_FRAME;
}

/*
 * From the frame at fp, whose slots were read, to its caller. Through JSEntry and JSConstructEntry
 * C++ is left, whose registers are there: src/builtins/{x64,arm64}/builtins-*.cc,
 * Generate_JSEntryVariant.
 */
INLINE int v8_caller(struct scratch *s, __u64 fp)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 marker = v->slots[V8_MARKER], caller = v->slots[V8_RECORD], sp = fp + 16;

#if defined(__TARGET_ARCH_arm64)
	if (marker == V8_ENTRY || marker == V8_CONSTRUCT_ENTRY) {
		if (caller == ~0ull) { /* a bad frame pointer, up to 8.7 */
			if (read_user(v->top, sizeof(v->top), fp + 88))
				return stop(w, STOP_MEMORY);
			return v8_return(w, v->top[1], v->top[0], fp + 168);
		}
		sp = fp + 160;
	}
	v8_return(w, v->slots[V8_RECORD + 1], caller, sp);
#else
	v8_return(w, v->slots[V8_RECORD + 1], caller, sp);
	if (marker == V8_ENTRY || marker == V8_CONSTRUCT_ENTRY)
		set_reg_lazy(w, REG_BX, fp - 56);
	else
		w->known &= ~(1u << REG_BX);
#endif
	if (w->pc == 0) /* the first of a stack that WebAssembly has made */
		return stop(w, STOP_ROOT);
	return STEP_FRAME;
}

/*
 * At a leaf in a handler that has a frame of its own: finds where the interpreter is in the
 * bytecode, in its register or where the handler has spilled that, and leaves it for the
 * interpreter's frame, which is next.
 */
INLINE void v8_running(struct scratch *s, const struct v8_proc *p, __u64 fp)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 array, caller = v->slots[V8_RECORD];

	if (read_user(&array, sizeof(array),
		      caller - sizeof(array) * (V8_RECORD - (p->array_slot & 3))) ||
	    (array & 3) != 1)
		return;
	v->spilled[V8_SPILLS] = w->regs[V8_REG_OFFSET];
	if (read_user(v->spilled, sizeof(v->spilled[0]) * V8_SPILLS,
		      fp - sizeof(v->spilled[0]) * V8_SPILLS))
		return;
	for (int i = V8_SPILLS; i >= 0; i--) {
		if (v8_runs(s, array, v->spilled[i])) {
			v->bytecode = v->spilled[i];
			break;
		}
	}
}

/* A frame at w->pc that is not to be stepped from by its record: pushes it, and leaves the step to
 * the native unwinder. */
INLINE int v8_without_record(struct scratch *s)
{
	struct walk *w = &s->walk;

	/* user space would go on from here, and push the frame again */
	if (!(w->mapping.flags & (MAPPING_TABLE | MAPPING_NO_TABLE)))
		return stop(w, STOP_NO_TABLE);
	if (v8_push_code(s, 0))
		return stop(w, STOP_MAX_FRAMES);
	w->hidden = 1;
	w->runtime = RUNTIME_native;
	return STEP_SWITCH;
}

/* One frame that has its record. The mapping is known. */
INLINE int v8_frame(struct scratch *s, const struct v8_proc *p)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 fp;

	if (get_reg(w, REG_FP, &fp) || (fp & 7) || fp < w->regs[REG_SP] ||
	    read_user(v->slots, sizeof(v->slots), fp - 8 * V8_RECORD))
		return v8_without_record(s);
	if (!(w->flags & FRAME_RETURN) && w->mapping.part == V8_HANDLER &&
	    !(v->slots[V8_MARKER] & 1))
		v8_running(s, p, fp);
	forget();
	if (v8_push_frame(s, p))
		return stop(w, STOP_MAX_FRAMES);
	return v8_caller(s, fp);
}

#if !defined(__TARGET_ARCH_arm64)

/* True if V8's code calls right before this address. Leaves another mapping than pc's in the walk.
 */
INLINE int v8_call_before(struct scratch *s, __u64 address)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;

	if (search_mapping(w, address - 1, &s->guess.bounds) || w->mapping.runtime != RUNTIME_v8 ||
	    read_user(v->bytes, sizeof(v->bytes), address - sizeof(v->bytes)))
		return 0;
	/* e8 rel32; ff /2 with a register, with a byte or four to add to it, and an index in
	 * between */
	return v->bytes[3] == 0xe8 || (v->bytes[6] == 0xff && (v->bytes[7] & 0xf8) == 0xd0) ||
	       (v->bytes[5] == 0xff && (v->bytes[6] & 0x38) == 0x10) ||
	       (v->bytes[4] == 0xff && (v->bytes[5] & 0x38) == 0x10) ||
	       (v->bytes[2] == 0xff && (v->bytes[3] & 0x38) == 0x10) ||
	       (v->bytes[1] == 0xff && (v->bytes[2] & 0x38) == 0x10);
}

/*
 * Whether a builtin runs without a frame of its own: that at fp is then of what called it. Sure
 * where that is a function that has bytecode or code made of it, which builtins' own do not (V8's
 * src/objects/shared-function-info.h: function_data). Above the stack pointer is what the builtin
 * has pushed, and the return address.
 */
INLINE __u32 v8_in_callers_frame(struct scratch *s, const struct v8_proc *p, __u64 fp)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 function, sp = w->regs[REG_SP], shared, data;

	if ((fp & 7) || fp < sp ||
	    read_user(v->slots, sizeof(v->slots), fp - sizeof(v->slots[0]) * V8_RECORD))
		return 0;
	function = v->slots[V8_FUNCTION];
	if (!(v->slots[V8_MARKER] & 1) || (function & 3) != 1 ||
	    read_user(&shared, sizeof(shared), function - 1 + p->function_shared) ||
	    (shared & 3) != 1 || read_user(&data, sizeof(data), shared - 1 + V8_SHARED_DATA) ||
	    !(data & 1) || read_user(v->spilled, sizeof(v->spilled[0]) * V8_PUSHED, sp))
		return 0;
	for (int i = 0; i < V8_PUSHED; i++) {
		__u64 word = v->spilled[i];

		if (sp + sizeof(word) * i + V8_FIXED_FRAME >= fp)
			break;
		if (word >> V8_PC_BITS == 0 && word >= V8_LONGEST_BUILTIN &&
		    v8_call_before(s, word)) {
			v->ra = word;
			return i + 1;
		}
	}
	return 0;
}

/*
 * Whether generated code has set its frame up at pc: it does so behind checks of its own, some tens
 * of bytes from its start, which is at a round address behind an object that has the map of all
 * such. 0 if it has, else where the return address is, as v8_depth says it.
 */
INLINE __u32 v8_begun(struct scratch *s, const struct v8_proc *p)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 align = 1ull << (p->code_align & 7), map = p->code_map;
	__u64 base = (w->pc & ~63ull) - V8_WINDOW_BEFORE, start = 0;
	__u32 at = 0, end = w->pc - base;

	if (!map || read_user(v->window, sizeof(v->window), base))
		return 0;
	for (int i = 0; i < 3; i++) {
		__u64 candidate = (w->pc & ~(align - 1)) - i * align;
		__u32 header = candidate - p->code_header - base;

		if (header < sizeof(v->window) &&
		    v->window[(header >> 3) & (V8_WINDOW / 8 - 1)] == map) {
			start = candidate;
			break;
		}
	}
	if (!start)
		return 0;
	at = start - base;
	for (int i = 0; i < V8_WINDOW - V8_WINDOW_BEFORE + 64; i++, at++) {
		const __u8 *code = (const __u8 *)v->window;

		if (at + 4 > end)
			break;
		/* push rbp; mov rbp, rsp */
		if (code[at & (V8_WINDOW - 1)] == 0x55 &&
		    code[(at + 1) & (V8_WINDOW - 1)] == 0x48 &&
		    code[(at + 2) & (V8_WINDOW - 1)] == 0x89 &&
		    code[(at + 3) & (V8_WINDOW - 1)] == 0xe5)
			return 0;
	}
	/* baseline code has it done by a builtin, and then values where the address would be */
	return v8_call_before(s, v->top[0]);
}

#endif

/*
 * Where the return address of a leaf is that has no frame record yet, or none any more: 1 + its
 * distance from the stack pointer in words; 0 if it has one, as far as can be told.
 */
INLINE __u32 v8_depth(struct scratch *s, const struct v8_proc *p, __u64 fp)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;

	if (read_user(v->bytes, sizeof(v->bytes), w->pc - 4))
		return 0;
#if defined(__TARGET_ARCH_arm64)
	__u32 code[2];

	__builtin_memcpy(code, v->bytes, sizeof(code));
	if (code[1] == 0xa9bf7bfd || code[1] == 0xd65f03c0) /* stp fp, lr, [sp, #-16]!; ret */
		return 1;
	return code[0] == 0xa9bf7bfd ? 2 : 0;
#else
	if (read_user(v->top, sizeof(v->top), w->regs[REG_SP]))
		return 0;
	if (v->bytes[4] == 0xc3 || v->bytes[4] == 0xc2) /* ret */
		return 1;
	if (v->bytes[4] == 0x55 && v->bytes[5] == 0x48 && v->bytes[6] == 0x89) /* push rbp; mov */
		return 1;
	if (v->bytes[3] == 0x55 && v->bytes[4] == 0x48 && v->bytes[5] == 0x89)
		return 2;
	if (w->mapping.part == V8_GENERATED)
		return v8_begun(s, p);
	if (w->mapping.part == V8_BUILTIN)
		return v8_in_callers_frame(s, p, fp);
	return 0;
#endif
}

/* A leaf, or what a signal has interrupted. */
INLINE int v8_leaf(struct scratch *s, const struct v8_proc *p)
{
	struct v8_walk *v = &s->v8;
	struct walk *w = &s->walk;
	__u64 fp, ra, sp = w->regs[REG_SP];

	if (get_reg(w, REG_FP, &fp))
		return v8_without_record(s);
	v->ra = 0;
	v->depth = v8_depth(s, p, fp);
	forget();
	if (find_mapping(w, w->pc)) /* that of pc again */
		return stop(w, STOP_STALE);
	if (!v->depth)
		return v8_frame(s, p);
	if (v8_push_code(s, 0))
		return stop(w, STOP_MAX_FRAMES);
#if defined(__TARGET_ARCH_arm64)
	if (v->depth == 1) {
		if (get_reg(w, REG_LR, &ra))
			return stop(w, STOP_REGISTER);
		return v8_return(w, ra, fp, sp);
	}
	if (read_user(v->top, sizeof(v->top), sp))
		return stop(w, STOP_MEMORY);
	return v8_return(w, v->top[1], fp, sp + 16);
#else
	ra = v->ra;
	if (!ra)
		ra = v->depth == 1 ? v->top[0] : v->top[1];
	return v8_return(w, ra, fp, sp + 8 * v->depth);
#endif
}

INLINE int do_v8_step(struct scratch *s)
{
	const struct v8_proc *p = v8_proc_of(s);
	struct walk *w = &s->walk;

	if (!p) { /* the process is another one by now */
		no_v8(s, __LINE__);
		return stop(w, STOP_STALE);
	}
	if (find_mapping(w, w->pc - (w->flags & FRAME_RETURN)) ||
	    w->mapping.runtime != RUNTIME_v8) {
		w->runtime = RUNTIME_native;
		return STEP_SWITCH;
	}
	if (w->flags & FRAME_RETURN)
		return v8_frame(s, p);
	return v8_leaf(s, p);
}

#ifdef VARIANT_LOOP
UNWINDER(v8)
#else
/* As many frames as fit into a program. */
INLINE int v8_frames(struct scratch *s)
{
	const struct v8_proc *p;
	struct walk *w = &s->walk;
	int ret = do_v8_step(s);

	for (int i = 0; i < V8_FRAMES_A_PROGRAM && ret == STEP_FRAME; i++) {
		p = v8_proc_of(s);
		if (!p)
			break;
		if (find_mapping(w, w->pc - (w->flags & FRAME_RETURN)) ||
		    w->mapping.runtime != RUNTIME_v8) {
			w->runtime = RUNTIME_native;
			return STEP_SWITCH;
		}
		ret = v8_frame(s, p);
	}
	return ret;
}
#endif

#endif
