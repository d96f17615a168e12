package hostbpf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

const tapes = "../../../testdata/tapes"

// TestTapes walks every tape with the reference walker and with both variants of the C code.
func TestTapes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(tapes, "*.tape"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d tapes: %v", len(paths), err)
	}
	all := map[unwind.Arch]hosts{
		unwind.ArchAMD64: startHosts(t, unwind.ArchAMD64),
		unwind.ArchARM64: startHosts(t, unwind.ArchARM64),
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tape"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := tape.Read(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			h := all[p.Arch]
			load(t, h, p.Mappings)
			frames, stop := compare(t, h, p, &p.Memory)
			if stop != p.Stop || !slices.Equal(frames, p.RawFrames()) {
				t.Errorf("got\n%s, the tape says\n%s", show(p.Mappings, frames, stop), show(p.Mappings, p.RawFrames(), p.Stop))
			}
			var again bytes.Buffer
			if err := p.Write(&again); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b, again.Bytes()) {
				t.Error("read and written the tape differs")
			}
		})
	}
}
