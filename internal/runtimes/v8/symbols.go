package v8

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// maxNames bounds a table of names, in bytes: Node's has some 8 million.
	maxNames = 64 << 20
	// maxSymbols bounds how many of a table are looked at: Node's has some 130,000.
	maxSymbols = 4 << 20
	// maxConstants and maxBuiltins bound how many are taken: V8 has some 500 and 2400.
	maxConstants, maxBuiltins = 4096, 8192
	// maxBuiltinName bounds a builtin's name.
	maxBuiltinName = 256
	// symbolsAtOnce is how many are read at a time.
	symbolsAtOnce = 4096
)

// What the symbols that are looked for begin with, or are. The constants are written by tools/gen-postmortem-metadata.py of V8.
const (
	constantPrefix = "v8dbg_"
	builtinPrefix  = "Builtins_"
	anyConstant    = "v8dbg_off_fp_context"
	majorSymbol    = "_ZN2v88internal7Version6major_E"
	minorSymbol    = "_ZN2v88internal7Version6minor_E"
	sizesSymbol    = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
)

// version is V8's, without its last parts.
type version struct{ major, minor int }

// String returns the version as people write it.
func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// symbols is what a file's tables of symbols say of V8.
type symbols struct {
	constants    constants
	major, minor *elffile.Symbol
	sizes        *elffile.Symbol
	builtins     []builtin
	embedder     version // if it is known otherwise
}

// constants are V8's for debuggers, by their names without the prefix.
type constants map[string]int

// class is the offset of a field of a class. Behind its name comes its C++ type, which changes more often than its place.
func (c constants) class(name string) (offset int, ok bool) {
	return c.prefixed("class_" + name + "__")
}

func (c constants) prefixed(prefix string) (value int, ok bool) {
	for name, v := range c {
		if strings.HasPrefix(name, prefix) && (!ok || v < value) {
			value, ok = v, true
		}
	}
	return value, ok
}

// findSymbols returns ErrNotThis if there is no V8. Node exports its constants, so that stripped builds have them, too.
func findSymbols(f *elffile.File) (*symbols, error) {
	d, err := elffile.NewDynamic(f)
	if err != nil {
		return nil, runtimes.ErrNotThis
	}
	switch _, ok, err := d.Lookup(anyConstant); {
	case err != nil:
		return nil, err
	case !ok:
		return embedderSymbols(f, d)
	}
	s := &symbols{constants: constants{}}
	at := map[string]elffile.Symbol{}
	seen := map[elf.SectionType]bool{}
	for i := range f.Sections {
		t := f.Sections[i].Type
		if t != elf.SHT_DYNSYM && t != elf.SHT_SYMTAB || seen[t] {
			continue
		}
		seen[t] = true // a file has one of each
		if err := s.read(f, &f.Sections[i], at); err != nil {
			return nil, fmt.Errorf("reading symbols of V8: %w", err)
		}
	}
	for name, symbol := range at {
		var b [4]byte
		if err := f.ReadAddr(b[:], symbol.Value); err == nil { // .bss has those that are 0
			s.constants[name] = int(int32(binary.LittleEndian.Uint32(b[:])))
		} else {
			s.constants[name] = 0
		}
	}
	return s, nil
}

// read takes what is wanted of a table of symbols.
func (s *symbols) read(f *elffile.File, table *elffile.Section, constants map[string]elffile.Symbol) error {
	if uint64(table.Link) >= uint64(len(f.Sections)) || f.Sections[table.Link].Type != elf.SHT_STRTAB {
		return nil
	}
	size := min(table.Size, maxSymbols*elffile.SymbolSize)
	if err := f.Check(uint64(table.Offset), size); err != nil {
		return err
	}
	names, err := f.SectionData(&f.Sections[table.Link], maxNames)
	if err != nil {
		return err
	}
	defer f.Budget().Give(uint64(len(names)))
	b := make([]byte, symbolsAtOnce*elffile.SymbolSize)
	for done := uint64(0); done+elffile.SymbolSize <= size; {
		n := min(uint64(len(b)), (size-done)/elffile.SymbolSize*elffile.SymbolSize)
		if _, err := f.ReaderAt().ReadAt(b[:n], int64(uint64(table.Offset)+done)); err != nil {
			return err
		}
		for at := uint64(0); at < n; at += elffile.SymbolSize {
			s.take(elffile.ParseSymbol(b[at:]), names, constants)
		}
		done += n
	}
	return nil
}

func (s *symbols) take(symbol elffile.Symbol, names []byte, constants map[string]elffile.Symbol) {
	if uint64(symbol.Name) >= uint64(len(names)) || symbol.Section == elf.SHN_UNDEF {
		return
	}
	name := names[symbol.Name:]
	switch {
	case bytes.HasPrefix(name, []byte(constantPrefix)):
		if len(constants) < maxConstants {
			constants[text(name[len(constantPrefix):])] = symbol
		}
	case bytes.HasPrefix(name, []byte(builtinPrefix)):
		if len(s.builtins) < maxBuiltins {
			s.builtins = append(s.builtins, builtin{start: symbol.Value, size: symbol.Size, name: text(name[len(builtinPrefix):])})
		}
	case bytes.HasPrefix(name, []byte(majorSymbol+"\x00")):
		s.major = &symbol
	case bytes.HasPrefix(name, []byte(minorSymbol+"\x00")):
		s.minor = &symbol
	case bytes.HasPrefix(name, []byte(sizesSymbol+"\x00")):
		s.sizes = &symbol
	}
}

// text is a name up to the zero byte that ends it.
func text(b []byte) string {
	b = b[:min(len(b), maxBuiltinName)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (s *symbols) version(f *elffile.File) (v version, err error) {
	if s.embedder != (version{}) {
		return s.embedder, nil
	}
	if s.major == nil || s.minor == nil {
		return v, fmt.Errorf("V8 that does not say its version: %w", runtimes.ErrUnsupported)
	}
	for _, part := range []struct {
		at *elffile.Symbol
		to *int
	}{{s.major, &v.major}, {s.minor, &v.minor}} {
		var b [4]byte
		if err := f.ReadAddr(b[:], part.at.Value); err != nil {
			return v, fmt.Errorf("reading the version of V8: %w", err)
		}
		*part.to = int(int32(binary.LittleEndian.Uint32(b[:])))
	}
	return v, nil
}

// builtin is one of V8's own functions and stubs.
type builtin struct {
	start unwind.FileAddr
	size  uint64 // 0 if nobody says
	name  string
	// handler: it runs one bytecode.
	handler bool
}

// builtins are those of a file.
type builtins struct {
	sorted []builtin // by start
	end    unwind.FileAddr
	parts  []runtimes.Range // file addresses, adjacent: who runs there
}

// interpreter is the builtin that calls the handlers of bytecodes.
const interpreter = "InterpreterEntryTrampoline"

// longestBuiltin bounds how much is looked at of one.
const longestBuiltin = 1 << 14

// embedded are the builtins that there are symbols of.
func (s *symbols) embedded() (b builtins, err error) {
	b.sorted = s.builtins
	slices.SortFunc(b.sorted, func(x, y builtin) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.name, y.name)) })
	b.sorted = slices.CompactFunc(b.sorted, func(x, y builtin) bool { return x.start == y.start })
	if len(b.sorted) == 0 {
		return b, fmt.Errorf("no symbols of builtins: %w", runtimes.ErrUnsupported)
	}
	last := b.sorted[len(b.sorted)-1]
	b.end = last.start + unwind.FileAddr(min(max(last.size, 1), longestBuiltin))
	markHandlers(b.sorted)
	for i, x := range b.sorted {
		part, end := uint8(abi.LoopV8PartV8BUILTIN), b.end
		if x.handler {
			part = uint8(abi.LoopV8PartV8HANDLER)
		}
		if i+1 < len(b.sorted) {
			end = b.sorted[i+1].start
		}
		if n := len(b.parts); n > 0 && b.parts[n-1].Part == part {
			b.parts[n-1].End = unwind.Addr(end)
			continue
		}
		b.parts = append(b.parts, runtimes.Range{Start: unwind.Addr(x.start), End: unwind.Addr(end), Part: part})
	}
	return b, nil
}

// start is where the code of all begins.
func (b *builtins) start() unwind.FileAddr { return b.sorted[0].start }

// markHandlers finds the handlers of bytecodes: they lie together, and others with such names elsewhere (src/builtins/builtins.cc).
func markHandlers(sorted []builtin) {
	var longest []builtin
	for from := 0; from < len(sorted); {
		to := from
		for to < len(sorted) && strings.HasSuffix(sorted[to].name, "Handler") {
			to++
		}
		if to-from > len(longest) {
			longest = sorted[from:to]
		}
		from = to + 1
	}
	for i := range longest {
		longest[i].handler = true
	}
}

// at is the builtin at an address; blob tells whether there is one.
func (b *builtins) at(a unwind.FileAddr) (_ *builtin, blob bool) {
	i, found := slices.BinarySearchFunc(b.sorted, a, func(x builtin, a unwind.FileAddr) int { return cmp.Compare(x.start, a) })
	if !found {
		i--
	}
	if i < 0 || a >= b.end {
		return nil, false
	}
	return &b.sorted[i], true
}

// interpreterReturn finds the return address that all frames of the interpreter have which have called something: it calls the first
// handler, which jumps to the next. Generate_InterpreterEntryTrampoline of src/builtins/{x64,arm64}/builtins-*.cc, 7.8 to 15.0: the first
// call by a register is that one, behind calls of the runtime by an address.
func (b *builtins) interpreterReturn(f *elffile.File) (unwind.FileAddr, error) {
	i := slices.IndexFunc(b.sorted, func(x builtin) bool { return x.name == interpreter })
	if i < 0 || i+1 >= len(b.sorted) {
		return 0, fmt.Errorf("no %s: %w", interpreter, runtimes.ErrUnsupported)
	}
	start := b.sorted[i].start
	code := make([]byte, min(b.sorted[i+1].start-start, longestBuiltin))
	if err := f.ReadAddr(code, start); err != nil {
		return 0, fmt.Errorf("reading %s: %w", interpreter, err)
	}
	if f.Arch == unwind.ArchARM64 {
		for at := 0; at+4 <= len(code); at += 4 {
			if binary.LittleEndian.Uint32(code[at:])&^(31<<5) == 0xd63f0000 { // blr
				return start + unwind.FileAddr(at+4), nil
			}
		}
	} else if at := bytes.Index(code, []byte{0xff, 0xd1}); at >= 0 { // call *%rcx
		return start + unwind.FileAddr(at+2), nil
	}
	return 0, fmt.Errorf("no call in %s: %w", interpreter, runtimes.ErrUnsupported)
}
