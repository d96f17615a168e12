/*
 * perfagent tells profilers what a JVM compiles, by JVMTI (Java SE 17, JVM Tool Interface 17.0).
 * Its option is "perfmap" for /tmp/perf-PID.map, or "jitdump=FOLDER" for FOLDER/jit-PID.dump with
 * the lines of the code (tools/perf/Documentation/jitdump-specification.txt, Linux 6.1).
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <jvmti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static FILE *map, *dump;
static uint64_t loads;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct dump_header {
	uint32_t magic, version, size, machine, pad, pid;
	uint64_t time, flags;
};

struct record {
	uint32_t id, size;
	uint64_t time;
};

struct load {
	struct record record;
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
};

struct debug {
	struct record record;
	uint64_t address, entries;
};

struct debug_entry {
	uint64_t address;
	uint32_t line, column;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int line_at(const jvmtiLineNumberEntry *lines, jint n, jlocation at)
{
	int line = 0;

	for (jint i = 0; i < n; i++)
		if (lines[i].start_location <= at)
			line = lines[i].line_number;
	return line;
}

static void write_lines(jvmtiEnv *jvmti, jmethodID method, const void *address, jint map_length,
			const jvmtiAddrLocationMap *places, const char *file)
{
	jvmtiLineNumberEntry *lines;
	struct debug d = {.record = {.id = 2, .time = now()}, .address = (uintptr_t)address};
	size_t name = strlen(file) + 1;
	jint n;

	if ((*jvmti)->GetLineNumberTable(jvmti, method, &n, &lines))
		return;
	d.entries = map_length;
	d.record.size = sizeof(d) + map_length * (sizeof(struct debug_entry) + name);
	fwrite(&d, sizeof(d), 1, dump);
	for (jint i = 0; i < map_length; i++) {
		struct debug_entry e = {(uintptr_t)places[i].start_address,
					line_at(lines, n, places[i].location), 0};

		fwrite(&e, sizeof(e), 1, dump);
		fwrite(file, name, 1, dump);
	}
	(*jvmti)->Deallocate(jvmti, (unsigned char *)lines);
}

static void write_load(const void *address, jint size, const char *name)
{
	struct load l = {
	    .record = {.size = sizeof(l) + strlen(name) + 1 + size, .time = now()},
	    .pid = getpid(),
	    .tid = gettid(),
	    .vma = (uintptr_t)address,
	    .address = (uintptr_t)address,
	    .size = size,
	    .index = ++loads,
	};

	fwrite(&l, sizeof(l), 1, dump);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(address, size, 1, dump);
	fflush(dump);
}

static void JNICALL compiled(jvmtiEnv *jvmti, jmethodID method, jint size, const void *address,
			     jint map_length, const jvmtiAddrLocationMap *places, const void *info)
{
	char *name = 0, *signature = 0, *class = 0, *file = 0, full[1024];
	jclass declaring;

	(void)info;
	if ((*jvmti)->GetMethodName(jvmti, method, &name, &signature, 0) ||
	    (*jvmti)->GetMethodDeclaringClass(jvmti, method, &declaring) ||
	    (*jvmti)->GetClassSignature(jvmti, declaring, &class, 0))
		return;
	snprintf(full, sizeof(full), "%s%s%s", class, name, signature);
	pthread_mutex_lock(&lock);
	if (map) {
		fprintf(map, "%lx %x %s\n", (unsigned long)address, size, full);
		fflush(map);
	}
	if (dump) {
		if (places && !(*jvmti)->GetSourceFileName(jvmti, declaring, &file))
			write_lines(jvmti, method, address, map_length, places, file);
		write_load(address, size, full);
	}
	pthread_mutex_unlock(&lock);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)name);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)class);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)file);
}

static void JNICALL generated(jvmtiEnv *jvmti, const char *name, const void *address, jint size)
{
	(void)jvmti;
	pthread_mutex_lock(&lock);
	if (map) {
		fprintf(map, "%lx %x %s\n", (unsigned long)address, size, name);
		fflush(map);
	}
	if (dump)
		write_load(address, size, name);
	pthread_mutex_unlock(&lock);
}

static int open_dump(const char *folder)
{
	struct dump_header h = {
	    .magic = 0x4A695444, .version = 1, .size = sizeof(h), .pid = getpid()};
	char path[512];

#if defined(__x86_64__)
	h.machine = EM_X86_64;
#else
	h.machine = EM_AARCH64;
#endif
	h.time = now();
	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, getpid());
	dump = fopen(path, "w+");
	if (!dump || fwrite(&h, sizeof(h), 1, dump) != 1 || fflush(dump))
		return -1;
	/* This tells profilers where the file is. */
	return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
	jvmtiCapabilities capabilities = {.can_generate_compiled_method_load_events = 1,
					  .can_get_source_file_name = 1,
					  .can_get_line_numbers = 1};
	jvmtiEventCallbacks callbacks = {.CompiledMethodLoad = compiled,
					 .DynamicCodeGenerated = generated};
	char path[64];
	jvmtiEnv *jvmti;

	(void)reserved;
	if (options && !strncmp(options, "jitdump=", 8)) {
		if (open_dump(options + 8))
			return JNI_ERR;
	} else {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
		map = fopen(path, "w");
		if (!map)
			return JNI_ERR;
	}
	if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) ||
	    (*jvmti)->AddCapabilities(jvmti, &capabilities) ||
	    (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks)) ||
	    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE,
					       JVMTI_EVENT_COMPILED_METHOD_LOAD, 0) ||
	    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE,
					       JVMTI_EVENT_DYNAMIC_CODE_GENERATED, 0))
		return JNI_ERR;
	return JNI_OK;
}
