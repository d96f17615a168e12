package hotspot

import (
	"encoding/binary"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func arm64Code(words ...uint32) (code []byte) {
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// TestLoops: behind its last safepoint, a place in a loop is of what is before it, not of what comes after the loop.
func TestLoops(t *testing.T) {
	const inner, outer = "p.C.inner:20 ", "p.C.outer:30 "
	for _, version := range versions() {
		for name, tt := range map[string]struct {
			arch unwind.Arch
			code []byte // at 20; described are 16 and 32
			want string
		}{
			"nothing that is read": {unwind.ArchAMD64, nil, outer},
			"straight":             {unwind.ArchAMD64, []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, outer},
			"jne to 16":            {unwind.ArchAMD64, []byte{0x90, 0x90, 0x75, 0x100 - 8}, inner},
			"jne to 17":            {unwind.ArchAMD64, []byte{0x90, 0x90, 0x75, 0x100 - 7}, outer},
			"jmp to 0":             {unwind.ArchAMD64, []byte{0xe9, 0xe7, 0xff, 0xff, 0xff}, inner},
			"jmp on, jmp to 16":    {unwind.ArchAMD64, []byte{0xeb, 0x10, 0xeb, 0x100 - 8}, outer},
			"call of 16":           {unwind.ArchAMD64, []byte{0xe8, 0xf7, 0xff, 0xff, 0xff}, outer},
			"ret, jmp to 16":       {unwind.ArchAMD64, []byte{0xc3, 0xeb, 0x100 - 7}, outer},
			"jmp through rax":      {unwind.ArchAMD64, []byte{0xff, 0xe0, 0xeb, 0x100 - 8}, outer},
			"behind the next":      {unwind.ArchAMD64, []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0x80}, outer},
			"no code":              {unwind.ArchAMD64, []byte{0x06, 0x75, 0x100 - 7}, outer},
			"a64: straight":        {unwind.ArchARM64, arm64Code(0xd503201f, 0xd503201f, 0xd503201f), outer},
			"a64: b 16":            {unwind.ArchARM64, arm64Code(0xd503201f, 0x17fffffe), inner},
			"a64: b.ne 16":         {unwind.ArchARM64, arm64Code(0x54ffffe1), inner},
			"a64: b.ne 20":         {unwind.ArchARM64, arm64Code(0x54000001), outer},
			"a64: cbnz x0, 16":     {unwind.ArchARM64, arm64Code(0xb5ffffe0), inner},
			"a64: cbz w0, 16":      {unwind.ArchARM64, arm64Code(0x34ffffe0), inner},
			"a64: tbz x0, #1, 16":  {unwind.ArchARM64, arm64Code(0x360fffe0), inner},
			"a64: tbnz x0, #33":    {unwind.ArchARM64, arm64Code(0xb70fffe0), inner},
			"a64: bl 16":           {unwind.ArchARM64, arm64Code(0x97ffffff), outer},
			"a64: ret, b 16":       {unwind.ArchARM64, arm64Code(0xd65f03c0, 0x17fffffe), outer},
			"a64: br x8, b 16":     {unwind.ArchARM64, arm64Code(0xd61f0100, 0x17fffffe), outer},
		} {
			y := newToy(t, version, scope{16, [][2]int{{0, 1}}}, scope{32, [][2]int{{2, 0}}})
			y.arch = tt.arch
			y.place(tt.code, 20)
			got, err := y.Symbolize(y.mem, nil, frameAt(20, true))
			if err != nil || describe(got) != tt.want {
				t.Errorf("%s, %s: %s (%v), not %s", version, name, describe(got), err, tt.want)
			}
			if got, err = y.Symbolize(y.mem, nil, frameAt(20, false)); err != nil || describe(got) != outer {
				t.Errorf("%s, %s, a return address: %s (%v)", version, name, describe(got), err)
			}
		}
	}
}

// TestLoopOfNothing: what the description before is of no method, or of the code before all descriptions, is not looked for.
func TestLoopOfNothing(t *testing.T) {
	back := []byte{0xeb, 0x100 - 20}
	y := newToy(t, "17", scope{16, nil}, scope{32, [][2]int{{2, 0}}})
	y.arch = unwind.ArchAMD64
	y.place(back, 20)
	if got, err := y.Symbolize(y.mem, nil, frameAt(20, true)); err != nil || describe(got) != "p.C.outer:30 " {
		t.Errorf("before it is no method: %s (%v)", describe(got), err)
	}
	y.place(back, 10)
	if got, err := y.Symbolize(y.mem, nil, frameAt(10, true)); err != nil || describe(got) != "p.C.outer:0 " {
		t.Errorf("before it is nothing: %s (%v)", describe(got), err)
	}
}

// place puts code at an offset.
func (y *toy) place(code []byte, offset int) {
	const codeAt = nmethodAt + 0x100000
	clear(y.mem.pieces[codeAt])
	if len(code) > 0 {
		copy(y.mem.put(codeAt, 0x100)[offset:], code)
	}
	if l := y.layout.blob.code; l.bytes == 8 {
		set8(y.head, l.at, codeAt)
	} else {
		set4(y.head, l.at, codeAt-nmethodAt)
	}
}
