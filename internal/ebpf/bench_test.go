package ebpf

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// shallowC burns in main.
const shallowC = `
#include <stdio.h>
int main(void) { volatile unsigned long n = 0; puts("READY"); fflush(stdout); for (;;) n++; }
`

// kernelC is deepC, but burns in the kernel.
var kernelC = strings.NewReplacer(
	"volatile unsigned long sink;", "#include <fcntl.h>\nvolatile unsigned long sink; int fd;",
	"for (int i = 0; i < n; i++) sink += i * 3;", "static char b[65536]; sink += read(fd, b, sizeof(b));",
	"int main(void) {", `int main(void) { fd = open("/dev/zero", O_RDONLY);`,
).Replace(deepC)

// generatedC burns in generated code that keeps no frame pointer and has PAD bytes before its epilogue.
const generatedC = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static const unsigned char begin[] = {0x48, 0x83, 0xec, 0x48, 0xb9, 0x00, 0x00, 0x10, 0x00, 0xff, 0xc9, 0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff};
static const unsigned char end[] = {0x48, 0x83, 0xc4, 0x48, 0xc3};
int main(void) {
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(code, 0x90, 4096);
	memcpy(code, begin, sizeof begin);
	memcpy(code + sizeof begin + PAD, end, sizeof end);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	puts("READY"); fflush(stdout);
	for (;;) { ((void (*)(void))code)(); __asm__ volatile("" ::: "memory"); }
}
`

// generated is generatedC with as many bytes before the epilogue.
func generated(pad string) string { return strings.ReplaceAll(generatedC, "PAD", pad) }

// BenchmarkWalk reports how long the on-CPU program takes over one kind of sample, in both variants: by the program's own
// clock from its beginning to the commit, so that other processes' samples don't count.
func BenchmarkWalk(b *testing.B) {
	needsBPF(b)
	for _, kind := range []struct {
		name, source string
		kernelMode   bool
		unknown      bool // to BPF: its stack is copied
		options      Options
	}{
		{"user-deep", deepC, false, false, Options{}},
		{"user-shallow", shallowC, false, false, Options{}},
		{"unknown-deep", deepC, false, true, Options{}},
		{"unknown-shallow", shallowC, false, true, Options{}},
		{"generated", generated("8"), false, false, Options{}},
		{"generated-without-an-end", generated("600"), false, false, Options{}},
		{"kernel", kernelC, true, false, Options{}},
		{"kernel-without-its-stack", kernelC, true, false, Options{NoKernelStacks: true}},
	} {
		pid := startProgram(b, kind.source)
		var cpus unix.CPUSet
		cpus.Set(1)
		if err := unix.SchedSetaffinity(pid, &cpus); err != nil {
			b.Fatal(err)
		}
		for _, v := range []struct {
			name    string
			variant Variant
		}{{"loop", VariantLoop}, {"tail", VariantTail}} {
			b.Run(kind.name+"/"+v.name, func(b *testing.B) {
				o := kind.options
				o.Variant, o.MaxFrames, o.MemoryBytes, o.Measure = v.variant, 1024, 256<<20, true
				benchmarkWalk(b, o, pid, kind.kernelMode, kind.unknown)
			})
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkWalk(b *testing.B, o Options, pid int, kernelMode, unknown bool) {
	k, err := Load(zap.NewNop(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	cpu, err := k.StartOnCPU(997)
	if err != nil {
		b.Fatal(err)
	}
	defer cpu.Close()
	if !unknown {
		publish(b, k, pid)
	}
	var took []time.Duration
	kernel, user, copied := 0, 0, 0
	b.ResetTimer()
	for len(took) < max(b.N, 500) {
		time.Sleep(100 * time.Millisecond)
		readOf(b, k, pid, func(s *Sample) {
			if s.KernelMode == kernelMode {
				took = append(took, s.Duration)
				user += len(s.User(nil))
				kernel += len(s.Kernel(nil))
				_, _, stack := s.Stack()
				copied += len(stack)
			}
		})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns/sample")
	b.ReportMetric(float64(took[len(took)*9/10]), "ns/sample-p90")
	b.ReportMetric(float64(user)/float64(len(took)), "user-frames")
	b.ReportMetric(float64(kernel)/float64(len(took)), "kernel-frames")
	b.ReportMetric(float64(copied)/float64(len(took)), "copied-bytes")
}
