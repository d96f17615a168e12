package ehframe

import (
	"os"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// BenchmarkEHFrame builds the table of the file that ELF names, or of the C library.
func BenchmarkEHFrame(b *testing.B) {
	path := os.Getenv("ELF")
	if path == "" {
		path = systemBinaries(b)[2]
	}
	f := unwindtest.Open(b, path)
	sec := f.Section(".eh_frame")
	if sec == nil {
		b.Fatal("no .eh_frame")
	}
	b.SetBytes(int64(sec.Size))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := EHFrame(f); err != nil {
			b.Fatal(err)
		}
	}
}
