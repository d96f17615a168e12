// Package libc finds out where C libraries keep what belongs to a thread.
package libc

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

var (
	// ErrNotLibc: the file is no C library that has threads.
	ErrNotLibc = errors.New("no C library")
	// ErrUnknown: it is one, but where it keeps what belongs to a thread cannot be told.
	ErrUnknown = errors.New("a C library of an unknown kind")
)

// Threads tells where a thread's value of a key of pthread_key_create is:
//
//	block = *(thread pointer + Table + 8 * (key >> BlockBits))
//	value = *(block + Stride * (key & (1 << BlockBits - 1)) + Value)
//
// and where its thread-local variables of a module are that was not there at the start:
//
//	block = *(*(thread pointer + Modules) + ModuleStride * module)
//
// Offsets are in bytes. With BlockBits 31 there is one block for all keys.
type Threads struct {
	Self         int64 // what pthread_self returns, less the thread pointer
	Table        int64
	BlockBits    uint32
	Stride       uint32
	Value        uint32
	Modules      int64
	ModuleStride uint32
	GNU          bool // the GNU C library, whose mutexes differ in size among architectures
}

// Detect looks at a file for the functions and tables of a C library. ErrNotLibc if it has none, ErrUnknown, wrapped, if they tell
// nothing.
func Detect(f *elffile.File) (*Threads, error) {
	d, err := elffile.NewDynamic(f)
	if errors.Is(err, elffile.ErrNoDynamic) {
		return nil, ErrNotLibc
	}
	if err != nil {
		return nil, err
	}
	get, ok, err := d.Lookup("pthread_getspecific")
	if err != nil {
		return nil, err
	}
	if !ok || get.Type != elf.STT_FUNC {
		return nil, ErrNotLibc
	}
	t, err := fromThreadDB(f, d)
	if t != nil || err != nil {
		return t, err
	}
	self, ok, err := d.Lookup("pthread_self")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrNotLibc
	}
	return fromCode(f, get, self)
}

// What glibc says of its threads to libthread_db: nptl_db/db_info.c and nptl_db/thread_dbP.h of glibc 2.36. A descriptor is an
// element's size in bits, the number of elements, and the offset of the first in bytes. They are dynamic symbols from 2.34 on, when
// libpthread became part of libc; until then libpthread's table of symbols has them, which distributions leave there for
// debuggers.
const (
	dbPthread  = "_thread_db_sizeof_pthread"
	dbSpecific = "_thread_db_pthread_specific"
	dbData     = "_thread_db_pthread_key_data_data"
	dbDataSize = "_thread_db_sizeof_pthread_key_data"
	dbLevel2   = "_thread_db_pthread_key_data_level2_data"
	dbModules  = "_thread_db_pthread_dtvp"
)

// fromThreadDB is nil if the file says nothing.
func fromThreadDB(f *elffile.File, d *elffile.Dynamic) (*Threads, error) {
	at := map[string]unwind.FileAddr{}
	names := []string{dbPthread, dbSpecific, dbData, dbDataSize, dbLevel2, dbModules}
	for _, name := range names {
		s, ok, err := d.Lookup(name)
		if err != nil {
			return nil, err
		}
		if ok {
			at[name] = s.Value
		}
	}
	if len(at) == 0 {
		if err := inSymbolTable(f, names, at); err != nil {
			return nil, err
		}
	}
	if len(at) < len(names) {
		return nil, nil
	}
	word := func(name string, i int) (v uint32) {
		var b [4]byte
		if err := f.ReadAddr(b[:], at[name]+unwind.FileAddr(4*i)); err != nil {
			return 0
		}
		return binary.LittleEndian.Uint32(b[:])
	}
	const count, offset = 1, 2
	size, specific, stride := word(dbPthread, 0), word(dbSpecific, offset), word(dbDataSize, 0)
	value, keys := word(dbData, offset), word(dbLevel2, count)
	if specific == 0 || specific >= size || size > 1<<16 || stride == 0 || stride > 64 || value >= stride || keys != 32 {
		return nil, fmt.Errorf("what libthread_db is told is not plausible: %w", ErrUnknown)
	}
	const dtv = 16 // sizeof(dtv_t), sysdeps/generic/dl-dtv.h
	t := &Threads{BlockBits: 5, Stride: stride, Value: value, ModuleStride: dtv, GNU: true}
	if f.Arch == unwind.ArchARM64 {
		// struct pthread ends where the thread pointer points to: sysdeps/aarch64/nptl/tls.h
		t.Self = -int64(size)
	}
	t.Table, t.Modules = t.Self+int64(specific), t.Self+int64(word(dbModules, offset))
	return t, nil
}

// maxSymbols bounds the bytes of a table of symbols that is looked through; libpthread's has 40 KiB.
const maxSymbols, maxNames = 1 << 20, 1 << 20

// inSymbolTable looks names up in .symtab, if there is one that is not too large.
func inSymbolTable(f *elffile.File, names []string, at map[string]unwind.FileAddr) error {
	s := f.Section(".symtab")
	if s == nil || s.Size > maxSymbols || int(s.Link) >= len(f.Sections) || f.Sections[s.Link].Size > maxNames {
		return nil
	}
	symbols, err := f.SectionData(s, maxSymbols)
	if err != nil {
		return err
	}
	strings, err := f.SectionData(&f.Sections[s.Link], maxNames)
	if err != nil {
		return err
	}
	for b := symbols; len(b) >= elffile.SymbolSize; b = b[elffile.SymbolSize:] {
		symbol := elffile.ParseSymbol(b)
		if symbol.Section == elf.SHN_UNDEF || uint64(symbol.Name) >= uint64(len(strings)) {
			continue
		}
		text := strings[symbol.Name:]
		for _, name := range names {
			if len(text) > len(name) && string(text[:len(name)]) == name && text[len(name)] == 0 {
				at[name] = symbol.Value
			}
		}
	}
	return nil
}
