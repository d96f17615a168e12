package hostbpf_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

const (
	distinctRules = 500
	markAt        = 0x7000_0000_0000
)

// marked makes a table whose rules lead to different callers: rule n to markAt + 16*n. Pages of it are empty, have few rows,
// and as many as fit.
func marked(r *rand.Rand, start unwind.FileAddr, rows int) (*unwind.Table, unwind.FileAddr) {
	var b tablebuild.Builder
	at := start
	dense := 1
	for i := range rows {
		rule := unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: 8 * (1 + r.Int32N(distinctRules)), RAOffset: -1}
		if i > 0 && r.IntN(10) == 0 {
			rule = unwind.Rule{}
		}
		_ = b.Add(at, rule)
		switch r.IntN(200) {
		case 0:
			at += unwind.FileAddr(r.IntN(5000))
		case 1:
			at = (at | 511) + 1
		case 2:
			at = at | 511
		case 3:
			dense = 1 + r.IntN(40)
		}
		at += unwind.FileAddr(1 + r.IntN(dense))
	}
	return b.Table(at), at
}

// TestSearch: BPF finds the rows that are there, in tables of every shape, among mappings of every number.
func TestSearch(t *testing.T) {
	var stack []byte
	for n := range distinctRules + 1 {
		stack = binary.LittleEndian.AppendUint64(stack, markAt+16*uint64(n+1))
	}
	var mem tape.Memory
	mem.Add(stackAt, stack)
	random := rand.New(rand.NewPCG(5, 6))
	for v, h := range startHosts(t, unwind.ArchAMD64) {
		for round := range 20 {
			mappings, probes := manyMappings(random, 1+round*round/2)
			if err := h.Load(mappings); err != nil {
				t.Fatal(err)
			}
			for _, at := range probes {
				search(t, v, h, mappings, at, &mem)
			}
		}
	}
}

// manyMappings makes mappings with tables, and addresses to look up.
func manyMappings(random *rand.Rand, n int) (mappings []tape.Mapping, probes []unwind.Addr) {
	at := unwind.Addr(codeAt)
	for range n {
		table, end := marked(random, unwind.FileAddr(random.IntN(1<<20)), 1+random.IntN(20000/n))
		start := table.Rows[0].Start &^ 511
		m := tape.Mapping{Table: table, Mapping: unwind.Mapping{Start: at, End: at + unwind.Addr(end-start) + 1024,
			Bias: uint64(at) - uint64(start)}}
		mappings = append(mappings, m)
		for range 1 + 200/n {
			row := table.Rows[random.IntN(len(table.Rows))].Start
			probes = append(probes, m.Addr(row), m.Addr(row)-1, m.Start+unwind.Addr(random.IntN(int(m.End-m.Start))))
		}
		probes = append(probes, m.Start-1, m.Start, m.End-1, m.End)
		at = m.End + unwind.Addr(random.IntN(3))
	}
	mappings = append(mappings, tape.Mapping{NoTable: true, Mapping: unwind.Mapping{Start: markAt, End: markAt + 1<<20}})
	return mappings, probes
}

func search(t *testing.T, v hostbpf.Variant, h *hostbpf.Host, code tape.Code, at unwind.Addr, mem unwind.Memory) {
	t.Helper()
	s := &hostbpf.Sample{Registers: unwind.Registers{PC: at}}
	s.Registers.Reg[unwind.AMD64RSP] = stackAt
	s.Registers.Reg[unwind.AMD64RBP] = stackAt + 1 // leads nowhere
	r := take(t, h, s, mem)
	m := code.At(at)
	if m == nil {
		if len(r.Frames) != 0 || r.StopReason() != unwind.StopNoMapping {
			t.Errorf("%s: %#x is in no mapping: %d frames, %v", v, at, len(r.Frames), r.StopReason())
		}
		return
	}
	rule := m.Table.Lookup(m.FileAddr(at))
	switch {
	case rule == unwind.Rule{}:
		if len(r.Frames) != 1 || r.StopReason() != unwind.StopNoRule {
			t.Errorf("%s: %#x has no rule: %d frames, %v", v, at, len(r.Frames), r.StopReason())
		}
	case len(r.Frames) != 2 || r.Frames[1].A != markAt+uint64(rule.Offset)*2:
		t.Errorf("%s: %#x has the rule %v: frames %v, %v at line %d", v, at, rule, r.Frames, r.StopReason(), r.StopLine)
	}
}
