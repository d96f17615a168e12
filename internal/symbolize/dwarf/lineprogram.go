package dwarf

// row is what a line program says of the instructions from an address on.
type row struct {
	addr   uint64
	file   uint32
	line   uint32
	column uint32
}

// machine is the state of a line program (DWARF 5, section 6.2.2), as far as rows depend on it.
type machine struct {
	row
	op uint8 // op_index
}

// output is what an instruction has made.
type output uint8

const (
	nothing output = iota
	oneRow
	lastRow // of the sequence: its address is the first that is not in it
)

// runner runs a line program.
type runner struct {
	machine
	d       *Data
	a       *account
	h       *lineHeader
	c       cursor
	defines bool // DW_LNE_define_file adds to the header's files
}

func newRunner(d *Data, a *account, h *lineHeader) (*runner, error) {
	s, err := h.unit.obj.section(secLine)
	if err != nil {
		return nil, err
	}
	return &runner{machine: start(), d: d, a: a, h: h, c: s.at(h.program, h.end)}, nil
}

// start is the state at the start of a sequence.
func start() machine { return machine{row: row{file: 1, line: 1}} }

// done starts the next sequence behind the last row of one.
func (r *runner) done(made output) {
	if made == lastRow {
		r.machine = start()
	}
}

// next runs one instruction (DWARF 5, sections 6.2.5.1 to 6.2.5.3).
func (r *runner) next() (made output, err error) {
	if r.d.steps--; r.d.steps < 0 {
		if err := r.d.more(); err != nil {
			return nothing, err
		}
	}
	switch op := r.c.u8(); {
	case op >= r.h.opcodeBase:
		return r.special(op), r.c.err
	case op == 0:
		return r.extended()
	case op > lnsFixedAdvancePC || op > uint8(len(standardOperands)) || r.h.lengths[op-1] != standardOperands[op-1]:
		// One that is not known, or not as it is known.
		for range r.h.lengths[op-1] {
			r.c.skipLEB()
		}
		return nothing, r.c.err
	default:
		return r.standard(op), r.c.err
	}
}

// standardOperands are how many operands the standard opcodes have.
var standardOperands = [...]uint8{0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}

func (r *runner) special(op uint8) output {
	if r.h.lineRange == 0 {
		r.c.fail("special opcode with a line_range of 0")
		return nothing
	}
	n := op - r.h.opcodeBase
	r.advance(uint64(n / r.h.lineRange))
	r.line += uint32(int32(r.h.lineBase) + int32(n%r.h.lineRange))
	return oneRow
}

func (r *runner) standard(op uint8) output {
	switch op {
	case lnsCopy:
		return oneRow
	case lnsAdvancePC:
		r.advance(r.c.uleb())
	case lnsAdvanceLine:
		r.line += uint32(r.c.sleb())
	case lnsSetFile:
		r.file = clip32(r.c.uleb())
	case lnsSetColumn:
		r.column = clip32(r.c.uleb())
	case lnsConstAddPC:
		if r.h.lineRange == 0 {
			r.c.fail("DW_LNS_const_add_pc with a line_range of 0")
			break
		}
		r.advance(uint64((255 - r.h.opcodeBase) / r.h.lineRange))
	case lnsFixedAdvancePC:
		r.addr += uint64(r.c.u16())
		r.op = 0
	case lnsSetISA:
		r.c.skipLEB()
	}
	return nothing
}

// advance moves on by so many operations.
func (r *runner) advance(n uint64) {
	if r.h.maxOps == 1 {
		r.addr += uint64(r.h.minInst) * n
		return
	}
	n += uint64(r.op)
	r.addr += uint64(r.h.minInst) * (n / uint64(r.h.maxOps))
	r.op = uint8(n % uint64(r.h.maxOps))
}

func (r *runner) extended() (output, error) {
	size := r.c.uleb()
	at := r.c.pos()
	if size == 0 || r.c.err != nil {
		return nothing, r.c.err
	}
	if size > r.c.end-at {
		r.c.fail("instruction of %d bytes", size)
		return nothing, r.c.err
	}
	made := nothing
	switch r.c.u8() {
	case lneEndSequence:
		made = lastRow
	case lneSetAddress:
		switch n := size - 1; n {
		case 4, 8:
			r.addr, r.op = r.c.uint(uint8(n)), 0
		default:
			r.c.fail("address of %d bytes", n)
		}
	case lneDefineFile:
		if r.defines {
			name := r.c.pos()
			r.c.skipString()
			if err := r.h.addFile(r.d, &r.c, r.a, name); err != nil {
				return nothing, err
			}
		}
	}
	if !r.c.to(at + size) {
		r.c.fail("instruction of %d bytes has more", size)
	}
	return made, r.c.err
}
