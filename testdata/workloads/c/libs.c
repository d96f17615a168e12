// libs burns 60 % in a function of its own that a shared library calls back, 30 % in that library (reached through the
// PLT), 10 % in a plugin opened with dlopen. The plugin stands beside the executable.
#include <dlfcn.h>

#include "hot.h"

uint64_t library_call(uint64_t (*back)(uint64_t), uint64_t n);
uint64_t library_burn(uint64_t n);

BURN(hot_sixty)
LEVEL(sixty_1, hot_sixty)

typedef uint64_t burn(uint64_t n);

static burn *open_plugin(const char *argv0)
{
	char path[4096];
	const char *slash = strrchr(argv0, '/');
	snprintf(path, sizeof path, "%.*s/libplugin.so", slash ? (int)(slash - argv0) : 1, slash ? argv0 : ".");
	void *plugin = dlopen(path, RTLD_LAZY);
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return (burn *)dlsym(plugin, "plugin_burn");
}

SOLID static void rounds(struct hot *h, burn *plugin)
{
	int which;
	while ((which = hot_next(h)) >= 0) {
		if (which == 0)
			library_call(sixty_1, h->slice);
		else if (which == 1)
			library_burn(h->slice);
		else
			plugin(h->slice);
	}
}

int main(int argc, char **argv)
{
	struct hot h;
	hot_parse(&h, argc, argv, 0);
	burn *plugin = open_plugin(argv[0]);
	hot_ready();
	rounds(&h, plugin);
	hot_done(&h);
	return 0;
}
