// Programs whose stacks become tapes: each stops itself where it is interesting, with a breakpoint instruction.
#ifndef POINT_H
#define POINT_H

#if defined(__x86_64__)
#define POINT() __asm__ volatile("int3" ::: "memory")
#else
#define POINT() __asm__ volatile("brk #0" ::: "memory")
#endif

#define SOLID __attribute__((noinline, noclone))
// Not a tail call.
#define AFTER() __asm__ volatile("" ::: "memory")

#endif
