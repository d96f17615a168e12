/* Loads a library at run time, calls it, and unloads it. */
#include <dlfcn.h>

volatile double sink;

int main(void)
{
	void *h = dlopen("libm.so.6", RTLD_LAZY);
	double (*f)(double) = h ? (double (*)(double))dlsym(h, "cbrt") : 0;
	if (!f)
		return 1;
	sink = f(3);
	return dlclose(h);
}
