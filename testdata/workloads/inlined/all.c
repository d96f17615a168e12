// all is the program as one unit: split debug information and link-time optimization do not go together in GCC 12.
#include "main.c"
#include "sixty.c"
#include "thirty.c"
#include "ten.c"
