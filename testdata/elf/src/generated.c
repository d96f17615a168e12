// A small JIT compiler: functions in anonymous memory with frames of many kinds, which call each other, C, and themselves, and
// which C calls back. With -DKEEP=1 all of them keep a frame pointer, with -DKEEP=2 every other one.
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef KEEP
#define KEEP 0
#endif
#define SOLID __attribute__((noinline, noclone))

typedef long (*function)(long);

static unsigned char *at; // where the next instruction goes
static function table[64];
static int count;
static volatile long sink;

static void bytes(const char *b, int n)
{
	memcpy(at, b, n);
	at += n;
}
#define EMIT(s) bytes(s, sizeof(s) - 1)

static void word32(int32_t v)
{
	memcpy(at, &v, 4);
	at += 4;
}

// C code of some depth, which leaves return addresses of its own below the stack pointer.
SOLID static long deepest(long n)
{
	volatile long b[6];
	for (int i = 0; i < 6; i++)
		b[i] = n + i;
	sink += b[n & 3];
	return sink;
}
SOLID static long deeper(long n)
{
	volatile char b[40];
	b[n & 31] = n;
	return deepest(n) + b[n & 31];
}
SOLID static long helper(long n)
{
	volatile char b[88];
	b[n & 63] = n;
	return deeper(n) + deeper(n + 1) + b[n & 63];
}

// Called by generated code, it calls generated code: the last call in its place, if the compiler likes.
SOLID static long again(long n)
{
	if (n <= 0)
		return deepest(n);
	long v = table[n % count](n - 1);
	sink += v;
	return table[(n + 3) % count](n - 2);
}

// A call by one of the ways that compilers know; rdi is ready.
static void call(int how, const void *target)
{
	intptr_t t = (intptr_t)target;
	long near = (unsigned char *)t - (at + 5);
	switch (how % 4) {
	case 0:
		if (near == (int32_t)near) {
			EMIT("\xe8"); // call target
			word32(near);
			return;
		}
		// fall through
	case 1:
		EMIT("\x48\xb8"); // movabs $target, %rax; call *%rax
		bytes((char *)&t, 8);
		EMIT("\xff\xd0");
		return;
	case 2:
		EMIT("\x49\xba"); // movabs $target, %r10; call *%r10
		bytes((char *)&t, 8);
		EMIT("\x41\xff\xd2");
		return;
	default:
		EMIT("\xeb\x08"); // jmp over the address; call *address(%rip)
		bytes((char *)&t, 8);
		EMIT("\xff\x15\xf2\xff\xff\xff");
	}
}

static const char pushes[6][2] = {"\x53", "\x55", "\x41\x54", "\x41\x55", "\x41\x56", "\x41\x57"}; // rbx, rbp, r12 to r15
static const char pops[6][2] = {"\x5b", "\x5d", "\x41\x5c", "\x41\x5d", "\x41\x5e", "\x41\x5f"};

static void save(const char reg[2]) { bytes(reg, reg[0] == 0x41 ? 2 : 1); }

// The frame is given back.
static void leave(int saves, int room, int keeps)
{
	if (keeps && saves == 1) {
		EMIT("\x48\x8b\x5d\xf8\xc9"); // mov -8(%rbp), %rbx; leave
		return;
	}
	if (room) {
		EMIT("\x48\x81\xc4"); // add $room, %rsp
		word32(room);
	}
	for (int i = saves - 1; i >= 0; i--)
		if (!(keeps && i == 1))
			save(pops[i]);
		else
			EMIT("\x41\x5b"); // pop %r11
	if (keeps)
		EMIT("\x5d"); // pop %rbp
}

// A function that pushes some registers (rbx first), has locals that it does not write, calls helper, then next if its argument is
// not zero. rbp is any register to it unless it keeps a frame pointer.
static function build(int saves, int locals, int how, const void *helped, const void *next, int keeps, int tail)
{
	function f = (function)at;
	int room = 8 * locals, pushed = saves + 1 + keeps;

	if ((pushed + locals) % 2)
		room += 8;
	if (how & 4)
		EMIT("\xf3\x0f\x1e\xfa"); // endbr64
	if (keeps)
		EMIT("\x55\x48\x89\xe5"); // push %rbp; mov %rsp, %rbp
	for (int i = 0; i < saves; i++)
		if (!(keeps && i == 1))
			save(pushes[i]);
		else
			EMIT("\x41\x53"); // push %r11
	if (room) {
		EMIT("\x48\x81\xec"); // sub $room, %rsp
		word32(room);
	}
	EMIT("\x48\x89\xfb"); // mov %rdi, %rbx
	if (saves > 1 && !keeps)
		EMIT("\x48\xc7\xc5\x11\x00\x00\x00"); // mov $17, %rbp
	if (helped)
		call(how, helped);
	EMIT("\x48\x89\xdf"); // mov %rbx, %rdi
	EMIT("\x48\xff\xcf"); // dec %rdi
	EMIT("\x48\x85\xff"); // test %rdi, %rdi
	if (!tail) {
		EMIT("\x0f\x8e"); // jle over the call
		unsigned char *hole = at;
		at += 4;
		call(how + 1, next ? next : (void *)f);
		int32_t d = at - (hole + 4);
		memcpy(hole, &d, 4);
	}
	EMIT("\x48\x89\xf8"); // mov %rdi, %rax
	if (tail) {
		EMIT("\x0f\x8e"); // jle over the jump
		unsigned char *hole = at;
		at += 4;
		leave(saves, room, keeps);
		EMIT("\xe9"); // jmp next
		word32((unsigned char *)next - (at + 4));
		int32_t d = at - (hole + 4);
		memcpy(hole, &d, 4);
	}
	leave(saves, room, keeps);
	EMIT("\xc3"); // ret
	while ((uintptr_t)at % 16)
		EMIT("\xcc");
	return f;
}

// A function without a frame.
static function leaf(void)
{
	function f = (function)at;
	EMIT("\x48\x8d\x04\x7f\x48\x89\xc1\x48\xd1\xe9\x48\x01\xc8\xc3"); // some arithmetic; ret
	while ((uintptr_t)at % 16)
		EMIT("\xcc");
	return f;
}

// A function without a frame pointer that only makes room.
static function roomy(int locals, const void *helped)
{
	function f = (function)at;
	int room = 16 * locals + 8;
	EMIT("\x48\x81\xec"); // sub $room, %rsp
	word32(room);
	EMIT("\x48\x89\x3c\x24"); // mov %rdi, (%rsp)
	call(0, helped);
	EMIT("\x48\x03\x04\x24"); // add (%rsp), %rax
	EMIT("\x48\x81\xc4");
	word32(room);
	EMIT("\xc3");
	while ((uintptr_t)at % 16)
		EMIT("\xcc");
	return f;
}

SOLID static long run(function f, long n)
{
	volatile char b[24];
	b[n & 15] = n;
	return f(n) + b[n & 15];
}

static int keeps(int i) { return KEEP == 1 || (KEEP == 2 && i % 2); }

int main(void)
{
	static const int locals[] = {0, 1, 2, 5, 9, 14, 22};
	size_t size = 1 << 16;
	// Always at one place: guesses look at bytes, and one address in 300 that code contains looks like a function's end.
	unsigned char *code = mmap((void *)0x7e0000000000, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 2;
	at = code;
	table[0] = leaf();
	for (int i = count = 1; i < 42; i++) {
		function last = table[count - 1];
		const void *helped = i % 5 == 4 ? (void *)again : i % 5 == 3 ? (void *)table[i % count] : (void *)helper;
		const void *next = i % 4 == 0 ? 0 : (void *)table[(i * 7) % count];
		int tail = i % 6 == 5;
		last = build(1 + i % 5, locals[i % 7], i, helped, tail ? (void *)last : next, keeps(i), tail);
		table[count++] = last;
		if (!KEEP && i % 6 == 0)
			table[count++] = roomy(i, i % 12 ? (void *)last : (void *)helper);
	}
	if (mprotect(code, size, PROT_READ | PROT_EXEC))
		return 2;
	for (int n = 0; n < 4; n++)
		for (int i = 0; i < count; i++)
			sink += run(table[i], n);
	return 0;
}
