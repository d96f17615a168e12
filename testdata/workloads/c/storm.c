// storm starts short-lived programs one after the other: a compiler that compiles small C files, and a program that does
// nothing.
//
//	storm DIR COUNT EVERY   runs DIR/true COUNT times; before every EVERY-th, compiles a file with DIR/gcc, whose cc1 and as
//	                        stand in DIR too
//
// At the end it prints one line of JSON: how many programs it started itself (compilations count one), how many failed,
// and the CPU time of itself and all of its descendants.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int failed;

static void run(char *const argv[])
{
	pid_t pid;
	int status;
	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid || status)
		failed++;
}

// write_source writes a file that costs the compiler some ten milliseconds, a different one each time.
static void write_source(const char *path, int seed)
{
	FILE *f = fopen(path, "w");
	if (!f)
		exit(2);
	for (int i = 0; i < 12; i++)
		fprintf(f,
			"int f%d_%d(int *a, int n)\n{\n\tint s = %d;\n\tfor (int i = 0; i < n; i++) {\n"
			"\t\tif (a[i] %% %d == 0)\n\t\t\ts += a[i] * s;\n\t\telse\n\t\t\ta[i] ^= s >> %d;\n\t}\n\treturn s;\n}\n",
			seed, i, seed + i, i + 3, i + 1);
	if (fclose(f))
		exit(2);
}

static double cpu_seconds(int who)
{
	struct rusage ru;
	getrusage(who, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) + (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	char program[4096], compiler[4096], prefix[4096], source[4096], object[4096];
	if (argc != 4)
		return 2;
	int count = atoi(argv[2]), every = atoi(argv[3]), started = 0;
	snprintf(program, sizeof program, "%s/true", argv[1]);
	snprintf(compiler, sizeof compiler, "%s/gcc", argv[1]);
	snprintf(prefix, sizeof prefix, "-B%s/", argv[1]);
	snprintf(source, sizeof source, "%s/source-%d.c", argv[1], (int)getpid());
	snprintf(object, sizeof object, "%s/source-%d.o", argv[1], (int)getpid());
	if (write(1, "READY\n", 6) < 0)
		return 3;
	for (int i = 0; i < count; i++) {
		if (every && i % every == 0) {
			write_source(source, i);
			run((char *[]){ compiler, prefix, "-O2", "-c", source, "-o", object, NULL });
			started++;
		}
		run((char *[]){ program, NULL });
		started++;
	}
	unlink(source);
	unlink(object);
	printf("{\"started\":%d,\"failed\":%d,\"cpu_seconds\":%.6f}\n", started, failed,
	       cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN));
	return 0;
}
