// memfd copies the program named by its first argument into a memfd and executes that with the other arguments: the
// running executable has no file system.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	int from = open(argv[1], O_RDONLY), to = memfd_create("hot", MFD_CLOEXEC);
	if (from < 0 || to < 0)
		return 2;
	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	fexecve(to, argv + 1, environ);
	perror("fexecve");
	return 2;
}
