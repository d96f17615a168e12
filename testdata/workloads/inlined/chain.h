// chain.h: every level of the chains is a function of its own in the source, and most are in other files than their callers.
// The compiler is free to inline all of them, and with link-time optimization it does. Each adds another number, or GCC would
// make one of equal ones.
#ifndef CHAIN_H
#define CHAIN_H

#include <stdint.h>

uint64_t sixty(uint64_t n);
uint64_t sixty_middle(uint64_t n);
uint64_t thirty(uint64_t n);
uint64_t thirty_middle(uint64_t n);
uint64_t ten(uint64_t n);

#endif
