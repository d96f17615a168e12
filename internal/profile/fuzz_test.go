package profile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

func FuzzBuilder(f *testing.F) {
	f.Add(uint64(1), 3000, 100, []byte("name"))
	f.Add(uint64(2), 4_000_000, 1000, []byte{0xff, 0})
	f.Add(uint64(3), 1, 10, []byte(nil))
	f.Fuzz(func(t *testing.T, seed uint64, limit, n int, text []byte) {
		if n < 0 || n > 2000 || limit <= 0 {
			return
		}
		w := newWorld(seed, 1+int(seed%9), 20, 20)
		b := New(Options{PayloadBytes: limit, Version: string(text), ThreadIDs: seed%2 == 0})
		w.resources[0].ExecutableName, w.mappings[0].File, w.mappings[1].BuildIDGo = string(text), string(text), string(text)
		w.symbols[0].Lines[0].Function.Name = string(text)
		for range n {
			o, s := w.sample()
			if len(text) > 0 && int(text[0])%4 == w.rnd.IntN(4) {
				s.ThreadName, s.StopReason = string(text), string(text)
				s.Attributes = []Attribute{{string(text), String(string(text))}}
			}
			b.Add(o, s)
		}
		payloads, lost := b.Flush(resolve, t0, t0.Add(5*time.Second))
		if got := checkFuzzed(t, payloads, limit); got+lost != n {
			t.Fatalf("%d in payloads + %d lost, %d added", got, lost, n)
		}
	})
}

// checkFuzzed is checkPayloads without the rules on attributes' keys and values, which fuzzing may break.
func checkFuzzed(t *testing.T, payloads []Payload, limit int) (samples int) {
	for i, p := range payloads {
		err := conformance.Check(p.Profiles)
		for _, line := range strings.Split(fmt.Sprint(err), "\n") {
			if err != nil && !strings.Contains(line, "attribute ") {
				t.Fatalf("payload %d: %v", i, err)
			}
		}
		if n := len(marshal(t, p.Profiles)); n > limit {
			t.Fatalf("payload %d has %d bytes of %d", i, n, limit)
		}
		samples += p.Samples
	}
	return samples
}
