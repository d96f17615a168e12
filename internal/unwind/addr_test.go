package unwind

import "testing"

// TestBiasOfSharedPages has two segments, far apart in memory, in one page of the file: only the other mappings tell which of them
// a mapping of that page is. A program that is not relocated has bias 0 everywhere.
func TestBiasOfSharedPages(t *testing.T) {
	segments := []Segment{
		{Offset: 0, VAddr: 0x400000, FileSize: 0x14ac, MemSize: 0x14ac, Exec: true},
		{Offset: 0x1df8, VAddr: 0x402df8, FileSize: 0x268, MemSize: 0x350},
		{Offset: 0x3000, VAddr: 0x10000000, FileSize: 0x2f, MemSize: 0x2f, Exec: true},
		{Offset: 0x3240, VAddr: 0x18000240, FileSize: 0x5b, MemSize: 0x5b, Exec: true},
	}
	if !SharePages(segments, 4096) || SharePages(segments[:3], 4096) {
		t.Error("which segments share pages is wrong")
	}
	for _, bias := range []uint64{0, 0x7f0000000000} {
		image := []Mapping{
			{Start: Addr(0x400000 + bias), End: Addr(0x402000 + bias)},
			{Start: Addr(0x10000000 + bias), End: Addr(0x10001000 + bias), Offset: 0x3000},
			{Start: Addr(0x18000000 + bias), End: Addr(0x18001000 + bias), Offset: 0x3000},
		}
		// A second image of the same file, as dlmopen makes them.
		all := image
		for _, m := range image {
			m.Start += 0x500000000
			m.End += 0x500000000
			all = append(all, m)
		}
		var biases Biases
		for _, m := range all {
			biases.Add(m, segments, 4096)
		}
		for i, m := range all {
			want := bias
			if i >= len(image) {
				want += 0x500000000
			}
			if !m.SetBiasAmong(&biases, segments, 4096) || m.Bias != want {
				t.Errorf("mapping %d at %#x has bias %#x, want %#x", i, m.Start, m.Bias, want)
			}
		}
	}
	// Both shared segments alone, and nothing else to tell: the program's own addresses.
	alone := Mapping{Start: 0x18000000, End: 0x18001000, Offset: 0x3000}
	var one Biases
	one.Add(alone, segments, 4096)
	if !alone.SetBiasAmong(&one, segments, 4096) || alone.Bias != 0 {
		t.Errorf("alone it has bias %#x", alone.Bias)
	}
	// A file may say the same twice: that is one vote of a mapping, not two.
	var twice Biases
	twice.Add(alone, append(segments, segments...), 4096)
	if twice.Len() != one.Len() || twice.votes[0].n != 1 {
		t.Errorf("%d biases, %d votes for 0", twice.Len(), twice.votes[0].n)
	}
}
