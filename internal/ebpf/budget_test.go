package ebpf

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// verifierBudget is how many instructions the verifier may look at for a program. Its limit is a million; what it takes differs
// among kernels by a third and more.
const verifierBudget = 600_000

// TestVerifierBudget loads each program by itself, so that one that grows is seen here before an older kernel rejects it.
func TestVerifierBudget(t *testing.T) {
	needsBPF(t)
	_ = rlimit.RemoveMemlock() // needed before 5.11 only
	processed := regexp.MustCompile(`processed (\d+) insns`)
	for _, v := range []Variant{VariantLoop, VariantTail} {
		spec, err := readSpec(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := resize(spec, Options{Variant: v, MaxFrames: 1024, MemoryBytes: 32 << 20}); err != nil {
			t.Fatal(err)
		}
		for name := range spec.Programs {
			t.Run(fmt.Sprint(v, " ", name), func(t *testing.T) {
				one := spec.Copy()
				for other := range one.Programs {
					if other != name {
						delete(one.Programs, other)
					}
				}
				c, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{
					Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats, LogSizeStart: 1 << 20},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				m := processed.FindStringSubmatch(c.Programs[name].VerifierLog)
				if m == nil {
					t.Fatal("the verifier's log has no figure")
				}
				n, err := strconv.Atoi(m[1])
				if err != nil || n > verifierBudget {
					t.Errorf("the verifier looked at %s instructions (%v)", m[1], err)
				}
				t.Logf("%d instructions looked at, %d in the program", n, len(spec.Programs[name].Instructions))
			})
		}
	}
}
