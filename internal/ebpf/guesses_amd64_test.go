package ebpf

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// framed is generated, but its code keeps a frame pointer.
var framed = strings.NewReplacer("0x48, 0x83, 0xec, 0x48, 0xb9", "0x55, 0x48, 0x89, 0xe5, 0xb9", "0x48, 0x83, 0xc4, 0x48, 0xc3", "0xc9, 0xc3").
	Replace(generated("8"))

// TestWithoutGuesses walks with what a kernel gets whose verifier refuses to guess: generated code is passed where it keeps frame
// pointers, and stacks end there where it does not, for no other reason than that.
func TestWithoutGuesses(t *testing.T) {
	needsBPF(t)
	l := loader{read: readSpec}
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		for code, tt := range map[string]struct {
			source string
			stop   unwind.StopReason
			frames int
		}{
			"with frame pointers": {framed, unwind.StopRoot, 4},
			"without":             {generated("8"), unwind.StopNoUnwindInfo, 1},
		} {
			t.Run(name+" "+code, func(t *testing.T) {
				pid := startProgram(t, tt.source) // before anything is sampled: what it is until exec is not to be seen
				k, err := l.loadVariant(zaptest.NewLogger(t), Options{MaxFrames: 128, MemoryBytes: 64 << 20}, v, false)
				if err != nil {
					t.Fatal(err)
				}
				sampled(t, k)
				publish(t, k, pid)
				mappings := mappedTables(t, k, pid)
				inCode, asWanted := 0, 0
				var stops [unwind.StopReasons]int
				for end := time.Now().Add(20 * time.Second); inCode < 100 && time.Now().Before(end); {
					time.Sleep(50 * time.Millisecond)
					readOf(t, k, pid, func(s *Sample) {
						frames := s.User(nil)
						if len(frames) == 0 {
							return
						}
						if m := find(mappings, frames[0].LookupAddr()); m == nil || !m.NoTable {
							return
						}
						inCode++
						stops[s.Stop]++
						if s.Stop == tt.stop && len(frames) >= tt.frames {
							asWanted++
						}
					})
				}
				if inCode < 100 || asWanted*100 < inCode*95 {
					t.Errorf("of %d stacks that begin in generated code %d end with %v behind %d frames or more; stops %v",
						inCode, asWanted, tt.stop, tt.frames, stops)
				}
			})
		}
	}
}
