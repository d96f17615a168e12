package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// fakePrograms is what is known of BPF programs.
type fakePrograms struct{ loaded, hidden bool }

func (p *fakePrograms) New() (some bool) {
	some, p.loaded = p.loaded, false
	return some
}

func (p *fakePrograms) Hidden() bool { return p.hidden }

// program is where a BPF program lies, or another one.
const program = 0xffffffffc0001000

// withProgram makes a kernel with one.
func withProgram(t *testing.T, name string) (k *fakeKernel, p *fakePrograms) {
	t.Helper()
	k, p = newFakeKernel(t), &fakePrograms{}
	k.e.programs = p
	k.program(name)
	k.reread()
	return k, p
}

// program has another one where the one before was.
func (k *fakeKernel) program(name string) {
	k.t.Helper()
	k.write("kallsyms", k.core+fmt.Sprintf("%016x t bpf_prog_0123456789abcdef_%s\t[bpf]\n", uint64(program), name))
}

func (k *fakeKernel) reread() {
	k.t.Helper()
	k.e.readKernelSymbols()
	k.until("the symbols were read", func() bool { return !k.e.kernelReading })
}

// sampled is what is known of the program in the next poll.
func (k *fakeKernel) sampled() profile.Location {
	k.e.polls++
	return k.e.kernelLocation(program)
}

func (k *fakeKernel) wantProgram(what string, l profile.Location, want string) {
	k.t.Helper()
	if want != "" {
		want = "bpf_prog_0123456789abcdef_" + want + "; [bpf] "
	}
	if got := k.chain(l); got != want {
		k.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestStalePrograms has another BPF program be loaded where one was: as long as the symbols are those from before, it has no name,
// and then the right one.
func TestStalePrograms(t *testing.T) {
	k, p := withProgram(t, "one")
	e := k.e
	k.wantProgram("at first", k.sampled(), "one")

	k.program("two")
	p.loaded = true
	l := k.sampled()
	k.wantProgram("a report that does not wait", l, "")
	k.reread()
	k.wantProgram("a report that waits", l, "two")
	k.wantProgram("sampled afterwards", k.sampled(), "two")

	// It is seen by who begins to read.
	p.loaded = true
	e.readKernelSymbols()
	l = k.sampled()
	k.wantProgram("sampled while symbols are read", l, "")
	k.until("they were", func() bool { return !e.kernelReading })
	k.wantProgram("then", k.sampled(), "two")

	// It is loaded while they are read.
	e.readKernelSymbols()
	p.loaded = true
	k.sampled()
	finish := func() {
		k.t.Helper()
		k.until("the reading ended", func() bool { return !e.kernelReading })
	}
	e.kernelCPU.spend(time.Minute) // no other one follows
	finish()
	l = k.sampled()
	k.wantProgram("loaded while symbols were read", l, "")
	k.reread()
	k.wantProgram("read again", l, "two")

	// They cannot be read.
	symbols := e.files.symbols
	e.files.symbols += "-gone"
	p.loaded = true
	k.reread()
	k.wantProgram("after a reading that failed", k.sampled(), "")
	if !e.kernelMisses {
		t.Error("it is not tried again")
	}
	e.files.symbols = symbols
	k.reread()
	k.wantProgram("after one that did not", k.sampled(), "two")
}

// TestHiddenPrograms samples a BPF program where nobody tells which are loaded: symbols are read again now and then.
func TestHiddenPrograms(t *testing.T) {
	k, p := withProgram(t, "one")
	e := k.e
	k.sampled()
	if e.refreshKernelSymbols(e.kernelRead.Add(2 * kernelReload)); e.kernelReading {
		t.Error("read again though it is known that nothing was loaded")
	}
	p.hidden = true
	k.program("two")
	k.wantProgram("too soon", k.sampled(), "one")
	e.refreshKernelSymbols(e.kernelRead.Add(kernelReload / 2))
	if e.kernelReading {
		t.Error("read again too soon")
	}
	if e.refreshKernelSymbols(e.kernelRead.Add(2 * kernelReload)); !e.kernelReading {
		t.Error("not read again")
	}
	k.until("the symbols were read", func() bool { return !e.kernelReading })
	k.wantProgram("afterwards", k.sampled(), "two")
}

// TestLoadedModules tells of modules that came, went, or lie elsewhere; not of uses.
func TestLoadedModules(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "modules")
	l := loadedModules{path: path, sys: dir}
	if l.changed() {
		t.Error("a kernel without modules has changed")
	}
	for i, c := range []struct {
		text string
		want bool
	}{
		{"nf_nat 57344 1 nft_chain_nat, Live 0xffffffffc0a00000\noverlay 151552 2 - Live 0xffffffffc0900000\n", true},
		{"nf_nat 57344 7 nft_chain_nat, Live 0xffffffffc0a00000\noverlay 151552 3 - Live 0xffffffffc0900000\n", false},
		{"nf_nat 57344 7 nft_chain_nat, Live 0xffffffffc0b00000\noverlay 151552 3 - Live 0xffffffffc0900000\n", true},
		{"overlay 151552 3 - Live 0xffffffffc0900000\n", true},
		{"overlay 151552 3 - Live 0xffffffffc0900000\n", false},
		{"overlay 155648 3 - Live 0xffffffffc0900000\n", true},
		{"damaged\n", true},
		{"", false},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := l.changed(); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// TestModuleLoadedAgain where it was before: only its directory is another one.
func TestModuleLoadedAgain(t *testing.T) {
	dir := t.TempDir()
	l := loadedModules{path: filepath.Join(dir, "modules"), sys: dir}
	if err := os.WriteFile(l.path, []byte("mod 4096 0 - Live 0xffffffffc0a00000\nhidden 4096 0 - Live 0xffffffffc0b00000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mod", "next"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !l.changed() || l.changed() {
		t.Error("nothing happened")
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "mod")), os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "mod"))); err != nil {
		t.Fatal(err)
	}
	if !l.changed() || l.changed() {
		t.Error("it was loaded again")
	}
}
