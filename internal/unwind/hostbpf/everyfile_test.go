package hostbpf_test

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

var (
	filesFlag = flag.String("files", "", "TestRealTables: compare walks in the ELF files that match this pattern")
	seedFlag  = flag.Uint64("seed", 0, "TestRealTables: where random choices begin; 0: 1, or, with HOSTPROFILES_TEST_FULL, the day")
)

// realWalks are the walks in one file, of some frames each.
const (
	realWalks  = 200
	realBudget = 256 << 20 // bytes for one table
)

// TestRealTables walks from random places in real files, with random registers over a stack that holds return addresses of the
// same file at random: the host build, in both variants, and the reference walker find the same frames and end for the same
// reason. With HOSTPROFILES_TEST_FULL the files are all libraries and programs of the folders where most are.
func TestRealTables(t *testing.T) {
	patterns := []string{"/bin/bash", "/usr/bin/readelf", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/ld-linux*",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/*-linux-gnu/lib/libc.so.6", "/usr/*-linux-gnu/lib/ld-linux*",
		"/usr/*-linux-gnu/lib/libstdc++.so.6"}
	leastFiles := 3 // of each architecture
	switch {
	case *filesFlag != "":
		patterns = []string{*filesFlag}
	case os.Getenv("HOSTPROFILES_TEST_FULL") != "":
		packages := unwindtest.Corpus(t, "../../..")
		patterns = []string{"/usr/bin/*", "/usr/sbin/*", "/usr/lib/*-linux-gnu/*.so*", "/usr/*-linux-gnu/lib/*.so*",
			packages + "/usr/bin/*", packages + "/usr/lib/*/*.so*"}
		leastFiles = 100
	}
	seed := *seedFlag
	if seed == 0 {
		seed = 1
		if os.Getenv("HOSTPROFILES_TEST_FULL") != "" {
			seed = uint64(time.Now().Unix() / 86400)
		}
	}
	t.Logf("-seed %d", seed)
	all := map[unwind.Arch]hosts{}
	files, walks, frames := map[unwind.Arch]int{}, map[unwind.Arch]int{}, map[unwind.Arch]int{}
	stops := map[unwind.StopReason]int{}
	seen := map[string]bool{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			real, err := filepath.EvalSymlinks(path)
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			f, mapping, ok := realMapping(t, real)
			if !ok {
				continue
			}
			if all[f.Arch] == nil {
				all[f.Arch] = startHosts(t, f.Arch)
			}
			w := realWorld{f: f, mapping: mapping, random: rand.New(rand.NewPCG(seed, uint64(len(seen))))}
			load(t, all[f.Arch], []tape.Mapping{mapping})
			for range realWalks {
				p := w.tape()
				found, stop := compare(t, all[f.Arch], p, &p.Memory)
				walks[f.Arch]++
				frames[f.Arch] += len(found)
				stops[stop]++
				if t.Failed() {
					t.Fatalf("%s with -seed %d, from %#x on", real, seed, uint64(p.Registers.PC))
				}
			}
			files[f.Arch]++
		}
	}
	t.Logf("files %v, walks %v, frames %v, ends %v", files, walks, frames, stops)
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		if *filesFlag == "" && (files[arch] < leastFiles || frames[arch] < 3*walks[arch]) {
			t.Errorf("%v: %d files, %d walks of %d frames", arch, files[arch], walks[arch], frames[arch])
		}
	}
}

// realMapping maps a file's executable segment; ok is false if it is no ELF file with a table.
func realMapping(t *testing.T, path string) (f *elffile.File, m tape.Mapping, ok bool) {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		return nil, m, false
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, m, false
	}
	if f, err = elffile.New(r, st.Size()); err != nil || len(f.Executable()) == 0 {
		return nil, m, false
	}
	tab, info, err := tables.Build(f.Within(elffile.NewBudget(path, realBudget)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(tab.Rows) == 0 {
		return nil, m, false
	}
	g := f.Executable()[0]
	const page = 4096
	start := unwind.Addr(codeAt + uint64(g.VAddr)&^(page-1))
	m = tape.Mapping{Mapping: unwind.Mapping{Start: start, End: unwind.Addr(codeAt + uint64(g.VAddr) + g.MemSize)}, Name: path, Table: tab}
	m.Bias = codeAt
	if info.Go != nil {
		m.Go = info.Go.Offsets
	}
	return f, m, true
}

// realWorld makes up threads that are in a file's code.
type realWorld struct {
	f       *elffile.File
	mapping tape.Mapping
	random  *rand.Rand
}

// pc is an address in the file's code: one of a random row, or any.
func (w *realWorld) pc() uint64 {
	rows := w.mapping.Table.Rows
	if w.random.IntN(8) > 0 && len(rows) > 1 {
		i := w.random.IntN(len(rows) - 1)
		from, to := uint64(rows[i].Start), uint64(rows[i+1].Start)
		return codeAt + from + w.random.Uint64N(to-from)
	}
	return uint64(w.mapping.Start) + w.random.Uint64N(uint64(w.mapping.End-w.mapping.Start))
}

// value is a word as a stack or a register may have it.
func (w *realWorld) value(words int) uint64 {
	switch n := w.random.IntN(10); {
	case n < 6:
		return w.pc()
	case n < 9:
		return stackAt + 8*w.random.Uint64N(uint64(words))
	}
	return w.random.Uint64()
}

// tape makes a thread up.
func (w *realWorld) tape() *tape.Tape {
	const words = 1024
	p := &tape.Tape{Arch: w.f.Arch, MaxFrames: 64, ThreadPointer: stackAt + 256, Mappings: []tape.Mapping{w.mapping}}
	stack := make([]uint64, words)
	for i := range stack {
		stack[i] = w.value(words)
		if w.random.IntN(4) == 0 { // a frame pointer of a frame that is not far above
			stack[i] = stackAt + 8*uint64(i+1+w.random.IntN(16))
		}
	}
	for i := range p.Registers.Reg {
		p.Registers.Reg[i] = w.value(words)
	}
	p.Registers.Known = 0xffff
	if w.f.Arch == unwind.ArchARM64 {
		p.Registers.Known = 0xffffffff
		p.Registers.Reg[unwind.ARM64FP] = stackAt + 8*w.random.Uint64N(64)
	} else {
		p.Registers.Reg[unwind.AMD64RBP] = stackAt + 8*w.random.Uint64N(64)
	}
	p.Registers.Reg[stackPointer(w.f.Arch)] = stackAt + 8*w.random.Uint64N(32)
	p.Registers.PC = unwind.Addr(w.pc())
	w.calls(&p.Registers, stack)
	var b []byte
	for _, v := range stack {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	p.Memory.Add(stackAt, b)
	return p
}

// calls puts return addresses and saved frame pointers where the rules of the code look for them, so that walks go on: as far as
// the stack reaches, or to the first rule that is not of the usual kind.
func (w *realWorld) calls(r *unwind.Registers, stack []uint64) {
	fpReg := uint8(unwind.AMD64RBP)
	if w.f.Arch == unwind.ArchARM64 {
		fpReg = unwind.ARM64FP
	}
	put := func(at, v uint64) bool {
		if i := (at - stackAt) / 8; at >= stackAt && at%8 == 0 && i < uint64(len(stack)) {
			stack[i] = v
			return true
		}
		return false
	}
	pc, sp, fp := uint64(r.PC), r.Reg[stackPointer(w.f.Arch)], r.Reg[fpReg]
	for range 64 {
		rule := w.mapping.Table.Lookup(unwind.FileAddr(pc - codeAt))
		base := sp
		switch {
		case rule.CFA != unwind.CFAReg || rule.Reg != fpReg && rule.Reg != stackPointer(w.f.Arch):
			return
		case rule.Reg == fpReg:
			base = fp
		}
		cfa := base + uint64(int64(rule.Offset))
		next := w.pc()
		for range 16 { // mostly to where the return address is on the stack again
			if r := w.mapping.Table.Lookup(unwind.FileAddr(next - 1 - codeAt)); r.CFA == unwind.CFAReg && r.RA == unwind.RAAtCFA {
				break
			}
			next = w.pc()
		}
		if rule.RA == unwind.RAReg {
			if rule.RAOffset != unwind.ARM64LR || pc != uint64(r.PC) {
				return
			}
			r.Reg[unwind.ARM64LR] = next
		} else if !put(cfa+uint64(8*int64(rule.RAOffset)), next) {
			return
		}
		if rule.FP == unwind.SaveAtCFA {
			fp = cfa + 8*uint64(2+w.random.IntN(8))
			if !put(cfa+uint64(8*int64(rule.FPOffset)), fp) {
				return
			}
		}
		pc, sp = next-1, cfa
	}
}
