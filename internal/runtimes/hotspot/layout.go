package hotspot

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	maxOffset = 1 << 12 // of a field
	maxSize   = 1 << 12 // of a type
)

// layout is where things are that are looked at, in bytes from the beginning of what they are in. All of it is what the process says; which
// entries there are tells the variants apart (those of JDK 8, 11, 17, 21, 25, 26 and 27, as live processes have them), not the version.
type layout struct {
	release string
	major   int
	// virtualThreads: there are some, whose frames may return to another stack.
	virtualThreads bool
	entryBytes     uint32 // of a ContinuationEntry on the stack; 0 if nobody says

	heap, heaps           uint64 // address of the only code heap's address (JDK 8), or of that of the list of them
	listLength, listData  int
	heapMemory, heapMap   int // two VirtualSpaces
	heapShift             int
	spaceLow              int
	spaceStart, spaceEnd  int // what is reserved
	blockSize, blockUsed  int // of the header
	blockLength           int
	interpreter           uint64 // address of the address of the queue of its stubs
	queueStart, queueSize int
	callReturn, barrier   uint64 // addresses of addresses; barrier: 0 if nobody says

	blob    blobLayout
	nmethod nmethodLayout
	method  methodLayout
}

// field is an offset and how many bytes are there.
type field struct{ at, bytes int }

// get reads it from the beginning of what it is in.
func (f field) get(b []byte) uint64 {
	switch f.bytes {
	case 2:
		return uint64(binary.LittleEndian.Uint16(b[f.at:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b[f.at:]))
	}
	return binary.LittleEndian.Uint64(b[f.at:])
}

type blobLayout struct {
	name, size, frameSize int
	frameComplete         field
	code                  field // 8 bytes: an address
	kinds                 bool
	kind                  int
	nmethodKind           int
}

type nmethodLayout struct {
	bytes              int // to read
	method, id, origPC int
	deopt              field // 8 bytes: an address
	deoptMH            field // no bytes: there is none
	immutable          int   // -1: there is none, PcDescs and scopes are in the blob
	pcs, pcsEnd        field
	scopes             field // 8 bytes: an address
	metadata           field // in the blob
	mutable            int   // -1: there is none, metadata is in the blob
	mutableSize        field
	relocation         field
}

type methodLayout struct {
	constMethod, access                               int
	constBytes, constants, constSize, flags, codeSize int
	nameIndex, signatureIndex                         int
	poolBytes, tags, holder, length                   int
	sourceIndex                                       int // in the pool
	classSource                                       int // in the class, if that is 0
	className, classConstants                         int
	symbolLength, symbolBody                          int
	stream                                            stream
}

// finder finds fields until one is missing.
type finder struct {
	v   *vm
	err error
}

func (f *finder) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), runtimes.ErrUnsupported)
	}
}

// one returns the first of these fields that there is; ok is false if there is none.
func (f *finder) one(names ...string) (v vmField, ok bool) {
	for _, name := range names {
		if v, ok := f.v.fields[name]; ok {
			return v, true
		}
	}
	return vmField{}, false
}

// offset is that of the first of these fields that there is.
func (f *finder) offset(names ...string) int {
	v, ok := f.one(names...)
	if !ok || v.static || v.at >= maxOffset {
		f.fail("no %s", strings.Join(names, " nor "))
		return 0
	}
	return int(v.at)
}

// field is the same with the number of bytes, by what its type is called.
func (f *finder) field(names ...string) field {
	at := f.offset(names...)
	v, _ := f.one(names...)
	kind, err := f.v.text.at(v.kind)
	if err != nil && f.err == nil {
		f.err = err
	}
	bytes := 8
	switch strings.TrimPrefix(kind, "volatile ") {
	case "u2", "uint16_t", "int16_t", "short":
		bytes = 2
	case "int", "u4", "uint", "jint", "int32_t", "uint32_t", "unsigned int":
		bytes = 4
	}
	return field{at, bytes}
}

// optional is a field that may not be there: then it has no bytes.
func (f *finder) optional(names ...string) field {
	if _, ok := f.one(names...); !ok {
		return field{}
	}
	return f.field(names...)
}

// ints is the offset of a field of four bytes.
func (f *finder) int(names ...string) int {
	v := f.field(names...)
	if v.bytes != 4 {
		f.fail("%s is no int", strings.Join(names, " or "))
	}
	return v.at
}

func (f *finder) address(name string) uint64 {
	v, ok := f.one(name)
	if !ok || !v.static || v.at == 0 {
		f.fail("no %s", name)
	}
	return v.at
}

func (f *finder) size(name string) int {
	n, ok := f.v.sizes[name]
	if !ok || n == 0 || n > maxSize {
		f.fail("no size of %s", name)
		return 0
	}
	return int(n)
}

// layout makes one of what vmStructs say. ErrUnsupported with the version and the entry that is missing.
func (v *vm) layout() (*layout, error) {
	f := &finder{v: v}
	l := &layout{}
	if err := l.version(f); err != nil {
		return nil, err
	}
	l.findCache(f)
	l.findBlob(f)
	l.findNmethod(f)
	l.findMethod(f)
	if f.err != nil {
		return nil, fmt.Errorf("HotSpot %s: %w", l.release, f.err)
	}
	return l, nil
}

// version reads which version it is: Abstract_VM_Version of share/runtime/vm_version.cpp. That of JDK 8 calls itself 25, and is the last one
// with a single code heap by that name.
func (l *layout) version(f *finder) error {
	var b [8]byte
	read := func(name string, n int) uint64 {
		if a, ok := f.one(name); ok && a.static && f.v.text.mem.Read(unwind.Addr(a.at), b[:n]) == nil {
			return binary.LittleEndian.Uint64(b[:])
		}
		return 0
	}
	if a := read("Abstract_VM_Version::_s_vm_release", 8); a != 0 {
		text, err := f.v.text.at(a)
		if err != nil {
			return err
		}
		l.release = text
	}
	b = [8]byte{}
	l.major = int(int32(read("Abstract_VM_Version::_vm_major_version", 4)))
	if heap, ok := f.one("CodeCache::_heap"); ok {
		l.heap, l.major = heap.at, 8
	}
	if l.release == "" || l.major == 0 {
		return fmt.Errorf("the version is not set: %w", runtimes.ErrNotReady)
	}
	l.method.stream = stream(0)
	if l.major >= 20 {
		l.method.stream = 1
	}
	entry, ok := f.v.sizes["ContinuationEntry"]
	l.virtualThreads = ok
	if entry < maxEntry { // aligned as the stack is: ContinuationEntry::size() of runtime/continuationEntry.hpp, JDK 26
		l.entryBytes = uint32(entry+15) &^ 15
	}
	if l.major >= 21 && !ok { // seven words, JDK 21
		l.virtualThreads, l.entryBytes = true, 64
	}
	return nil
}

func (l *layout) findCache(f *finder) {
	if l.heap == 0 {
		l.heaps = f.address("CodeCache::_heaps")
		l.listLength = f.offset("GrowableArrayBase::_len", "GenericGrowableArray::_len")
		l.listData = f.offset("GrowableArray<int>::_data")
	}
	l.heapMemory, l.heapMap = f.offset("CodeHeap::_memory"), f.offset("CodeHeap::_segmap")
	l.heapShift = f.int("CodeHeap::_log2_segment_size")
	l.spaceLow = f.offset("VirtualSpace::_low")
	l.spaceStart, l.spaceEnd = f.offset("VirtualSpace::_low_boundary"), f.offset("VirtualSpace::_high_boundary")
	l.blockSize, l.blockUsed, l.blockLength = f.size("HeapBlock"), f.offset("HeapBlock::Header::_used"), f.offset("HeapBlock::Header::_length")
	l.interpreter = f.address("AbstractInterpreter::_code")
	l.queueStart, l.queueSize = f.offset("StubQueue::_stub_buffer"), f.offset("StubQueue::_buffer_limit")
	l.callReturn = f.address("StubRoutines::_call_stub_return_address")
	if v, ok := f.one("StubRoutines::_cont_returnBarrier"); ok && v.static { // from 27 on
		l.barrier = v.at
	}
}

func (l *layout) findBlob(f *finder) {
	b := &l.blob
	b.name, b.size, b.frameSize = f.offset("CodeBlob::_name"), f.int("CodeBlob::_size"), f.int("CodeBlob::_frame_size")
	b.frameComplete = f.field("CodeBlob::_frame_complete_offset")
	b.code = f.field("CodeBlob::_code_begin", "CodeBlob::_code_offset")
	if b.code.bytes == 2 || b.frameComplete.bytes == 8 {
		f.fail("CodeBlob is another")
	}
	if _, b.kinds = f.one("CodeBlob::_kind"); b.kinds {
		kind, ok := f.v.ints["CodeBlobKind::Nmethod"]
		if b.kind, b.nmethodKind = f.offset("CodeBlob::_kind"), int(kind); !ok {
			f.fail("no CodeBlobKind::Nmethod")
		}
	}
}

func (l *layout) findNmethod(f *finder) {
	n := &l.nmethod
	n.bytes = f.size("nmethod")
	n.method, n.id = f.offset("nmethod::_method", "CompiledMethod::_method"), f.int("nmethod::_compile_id")
	n.origPC = f.int("nmethod::_orig_pc_offset")
	n.deopt = f.field("CompiledMethod::_deopt_handler_begin", "nmethod::_deopt_handler_entry_offset", "nmethod::_deopt_handler_offset",
		"nmethod::_deoptimize_offset")
	n.deoptMH = f.optional("CompiledMethod::_deopt_mh_handler_begin", "nmethod::_deopt_mh_handler_offset", "nmethod::_deoptimize_mh_offset")
	n.immutable, n.mutable = -1, -1
	n.pcs, n.scopes = f.field("nmethod::_scopes_pcs_offset"), f.field("CompiledMethod::_scopes_data_begin", "nmethod::_scopes_data_offset")
	if _, ok := f.one("nmethod::_immutable_data"); ok {
		// in this order: dependencies, null checks, handlers, PcDescs, scopes (share/code/nmethod.hpp, JDK 26)
		n.immutable, n.pcsEnd = f.offset("nmethod::_immutable_data"), n.scopes
	} else {
		n.pcsEnd = f.field("nmethod::_dependencies_offset")
	}
	if _, ok := f.one("CodeBlob::_mutable_data"); ok { // relocations, then metadata
		n.mutable, n.mutableSize, n.relocation = f.offset("CodeBlob::_mutable_data"), f.field("CodeBlob::_mutable_data_size"),
			f.field("CodeBlob::_relocation_size")
	} else {
		n.metadata = f.field("nmethod::_metadata_offset")
	}
	if n.pcs.bytes == 8 || n.pcsEnd.bytes == 8 || n.deoptMH.bytes != 0 && n.deoptMH.bytes != n.deopt.bytes || n.deopt.bytes == 2 {
		f.fail("nmethod is another")
	}
	f.inside("nmethod", n.bytes, field{n.method, 8}, field{n.id, 4}, n.pcs, n.pcsEnd, n.scopes, n.metadata, n.mutableSize, n.relocation,
		l.blob.code)
	if n.immutable >= 0 {
		f.inside("nmethod", n.bytes, field{n.immutable, 8})
	}
	if n.mutable >= 0 {
		f.inside("nmethod", n.bytes, field{n.mutable, 8})
	}
}

// inside fails unless fields lie in what is read of a type.
func (f *finder) inside(what string, size int, fields ...field) {
	for _, x := range fields {
		if x.at < 0 || x.at+x.bytes > size {
			f.fail("fields behind the end of %s", what)
		}
	}
}

func (l *layout) findMethod(f *finder) {
	m := &l.method
	m.constMethod, m.access = f.offset("Method::_constMethod"), f.offset("Method::_access_flags")
	m.constBytes, m.poolBytes = f.size("ConstMethod"), f.size("ConstantPool")
	m.constants, m.constSize = f.offset("ConstMethod::_constants"), f.int("ConstMethod::_constMethod_size")
	m.flags, m.codeSize = f.offset("ConstMethod::_flags", "ConstMethod::_flags._flags"), f.offset("ConstMethod::_code_size")
	m.nameIndex, m.signatureIndex = f.offset("ConstMethod::_name_index"), f.offset("ConstMethod::_signature_index")
	m.tags, m.holder, m.length = f.offset("ConstantPool::_tags"), f.offset("ConstantPool::_pool_holder"), f.int("ConstantPool::_length")
	if _, ok := f.one("ConstantPool::_source_file_name_index"); ok {
		m.sourceIndex = f.offset("ConstantPool::_source_file_name_index")
	} else {
		m.classSource = f.offset("InstanceKlass::_source_file_name_index") // up to 11
	}
	m.className, m.classConstants = f.offset("Klass::_name"), f.offset("InstanceKlass::_constants")
	m.symbolLength, m.symbolBody = f.offset("Symbol::_length"), f.offset("Symbol::_body")
	f.inside("ConstMethod", m.constBytes, field{m.constants, 8}, field{m.constSize, 4}, field{m.flags, 2}, field{m.codeSize, 2},
		field{m.nameIndex, 2}, field{m.signatureIndex, 2})
	f.inside("ConstantPool", m.poolBytes, field{m.holder, 8}, field{m.tags, 8}, field{m.length, 4}, field{m.sourceIndex, 2})
}
