package python

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

func words(ws ...uint32) (b []byte) {
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestVariable decodes the forms that functions have which return a thread-local variable: those of Debian's CPython 3.15.2, and what
// the ABI's documents have besides.
func TestVariable(t *testing.T) {
	const at = 0x401000
	for name, tt := range map[string]struct {
		code string
		want variable
		ok   bool
	}{
		"local-exec":             {"f30f1efa64488b0425d8ffffffc3", variable{kind: variableFixed, offset: -40}, true},
		"initial-exec":           {"488b05f90f000064488b00c3", variable{kind: variableOffset, slot: at + 7 + 0xff9}, true},
		"general-dynamic":        {"4883ec08488d3df50f0000e800000000488b40284883c408c3", variable{kind: variableModule, offset: 0x28, slot: at + 11 + 0xff5}, true},
		"another function":       {"488b05f90f0000c3", variable{}, false},
		"no call":                {"488d3df50f0000488b4028c3", variable{}, false},
		"the end is not there":   {"64488b0425d8ffffff", variable{}, false},
		"nothing is there":       {"", variable{}, false},
		"bytes that are no code": {"0606060606060606", variable{}, false},
	} {
		got, ok := amd64Variable(unhex(t, tt.code), at)
		require.Equal(t, tt.ok, ok, name)
		if ok {
			require.Equal(t, tt.want, got, name)
		}
	}
	for name, tt := range map[string]struct {
		code []byte
		want variable
		ok   bool
	}{
		"local-exec":  {words(0xd503233f, 0xd53bd048, 0x91400108, 0x91008108, 0xf9400100, 0xd65f03c0), variable{kind: variableFixed, offset: 0x20}, true},
		"one add":     {words(0xd53bd040, 0x91008000, 0xf9400400, 0xd65f03c0), variable{kind: variableFixed, offset: 0x28}, true},
		"descriptor":  {words(0x90000080, 0xf9400c02, 0x91006000, 0xd63f0040, 0xd53bd041, 0xf8606820, 0xd65f03c0), variable{kind: variableDescriptor, slot: 0x411018}, true},
		"no variable": {words(0xd53bd040, 0xd65f03c0), variable{}, false},
		"no end":      {words(0xd53bd040, 0x91008000, 0xf9400400), variable{}, false},
	} {
		got, ok := arm64Variable(tt.code, at)
		require.Equal(t, tt.ok, ok, name)
		if ok {
			require.Equal(t, tt.want, got, name)
		}
	}
}

// memoryAt is memory that has words at one address.
type memoryAt struct {
	at    unwind.Addr
	words []uint64
}

func (m memoryAt) Read(a unwind.Addr, b []byte) error {
	var all []byte
	for _, w := range m.words {
		all = binary.LittleEndian.AppendUint64(all, w)
	}
	if a < m.at || uint64(a-m.at)+uint64(len(b)) > uint64(len(all)) {
		return elffile.ErrNoData
	}
	copy(b, all[a-m.at:])
	return nil
}

// TestVariablePlan: where the variable is in a process is said by the words that its code goes by.
func TestVariablePlan(t *testing.T) {
	threads := &libc.Threads{Modules: 8, ModuleStride: 16}
	for name, tt := range map[string]struct {
		v    variable
		mem  memoryAt
		want abi.LoopPythonProc
		err  error
	}{
		"fixed":        {v: variable{offset: -40}, want: abi.LoopPythonProc{Thread: 1, ThreadOffset: -40}},
		"offset":       {v: variable{kind: variableOffset, offset: 8, slot: 0x10}, mem: memoryAt{0x1010, []uint64{^uint64(47), 0}}, want: abi.LoopPythonProc{Thread: 1, ThreadOffset: -40}},
		"module":       {v: variable{kind: variableModule, offset: 8, slot: 0x10}, mem: memoryAt{0x1010, []uint64{3, 32}}, want: abi.LoopPythonProc{Thread: 2, ThreadOffset: 40, DtvOffset: 8, DtvSlot: 48}},
		"no module":    {v: variable{kind: variableModule, slot: 0x10}, mem: memoryAt{0x1010, []uint64{0, 32}}, err: runtimes.ErrNotReady},
		"descriptor":   {v: variable{kind: variableDescriptor, slot: 0x10}, mem: memoryAt{0x1010, []uint64{0x7000, 64}}, want: abi.LoopPythonProc{Thread: 1, ThreadOffset: 64}},
		"not resolved": {v: variable{kind: variableDescriptor, slot: 0x10}, mem: memoryAt{0x1010, []uint64{0, 64}}, err: runtimes.ErrNotReady},
		"unreadable":   {v: variable{kind: variableModule, slot: 0x10}, err: elffile.ErrNoData},
	} {
		var proc abi.LoopPythonProc
		p := &runtimes.Process{Memory: tt.mem, Image: unwind.Mapping{Bias: 0x1000}, Threads: threads}
		err := tt.v.plan(&proc, p)
		require.ErrorIs(t, err, tt.err, name)
		if err == nil {
			require.Equal(t, tt.want, proc, name)
		}
	}
}

// TestArgument decodes PyGILState_GetThisThreadState of CPython 3.6.15.
func TestArgument(t *testing.T) {
	for _, tt := range []struct {
		machine elf.Machine
		code    []byte
		want    unwind.FileAddr
		ok      bool
	}{
		{elf.EM_X86_64, unhex(t, "48833d0000000000"+"7407"+"8b3d10000000"+"e900000000"+"31c0c3"), 0x20, true},
		{elf.EM_X86_64, unhex(t, "31c0c3"), 0, false},
		{elf.EM_AARCH64, words(0xb0000000, 0xb9402000, 0x14000010), 0x1020, true},
		{elf.EM_AARCH64, words(0xd2800000, 0xd65f03c0), 0, false},
	} {
		f := unwindtest.Image(t, tt.machine, unwindtest.ImageBase, tt.code)
		got, ok := argumentOf(f, &elffile.Symbol{Value: unwindtest.ImageBase})
		require.Equal(t, tt.ok, ok)
		if ok {
			require.Equal(t, tt.want, got-unwindtest.ImageBase)
		}
	}
}

// TestJumps finds the jumps out of a piece of code, and no calls.
func TestJumps(t *testing.T) {
	require.Equal(t, []unwind.FileAddr{0x1200, 0x2000}, jumps(unwind.ArchAMD64, unhex(t, "e800010000"+"0f84f5010000"+"eb00"+"e9ee0f0000"+"c3"), 0x1000))
	require.Equal(t, []unwind.FileAddr{0x2000, 0xff0, 0x1110, 0x1214}, jumps(unwind.ArchARM64,
		words(0x14000400, 0x54ffff60, 0x34000840, 0x36001040, 0x94000400, 0x14000001, 0xd65f03c0), 0x1000))
}
