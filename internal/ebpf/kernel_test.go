package ebpf

import (
	"os"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// needsBPF skips on a typed "not supported" only: without root there are no programs to load.
func needsBPF(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not supported: loading BPF programs needs root")
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func TestLoadAndSample(t *testing.T) {
	needsBPF(t)
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		t.Run(name, func(t *testing.T) {
			k, err := Load(zaptest.NewLogger(t), Options{Variant: v, MaxFrames: 1024, MemoryBytes: 256 << 20})
			if err != nil {
				t.Fatalf("%+v", err)
			}
			defer k.Close()
			cpu, err := k.StartOnCPU(997)
			if err != nil {
				t.Fatal(err)
			}
			began := cpuTime(t)
			for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
			}
			want := int(997 * (cpuTime(t) - began).Seconds())
			cpu.Close()
			var stops [unwind.StopReasons]int
			n, mine, copies := uint64(0), 0, 0
			err = k.ReadSamples(func(b []byte) {
				var s Sample
				if err := s.Decode(b); err != nil {
					t.Fatal(err)
				}
				n++
				stops[s.Stop]++
				if s.PID == uint32(os.Getpid()) {
					mine++
				}
				if s.HasCopy {
					copies++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			taken, lost := k.Counts()
			if taken != lost+n {
				t.Errorf("taken %d, lost %d, read %d", taken, lost, n)
			}
			if mine < want*8/10 || mine > want*12/10 || copies == 0 {
				t.Errorf("%d samples of this process, %d with copies, not %d; stops %v", mine, copies, want, stops)
			}
		})
	}
}

func TestSideband(t *testing.T) {
	needsBPF(t)
	s, err := OpenSideband(zaptest.NewLogger(t), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	kinds := map[EventKind]int{}
	paths := map[string]bool{}
	for _, e := range s.Read(nil) {
		if int(e.PID) == p.Pid {
			kinds[e.Kind]++
			paths[e.Path] = true
		}
	}
	for _, k := range []EventKind{EventMmap, EventExec, EventFork, EventExit} {
		if kinds[k] == 0 {
			t.Errorf("no event of kind %d: %v", k, kinds)
		}
	}
	if !paths["/usr/bin/true"] || !paths["[vdso]"] {
		t.Errorf("mappings of true: %v", paths)
	}
}
