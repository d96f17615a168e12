// Package layout lays unwind tables out as the BPF programs read them: what bpf/abi.h says of struct block and struct rule,
// in Go and without a kernel.
package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
)

// What crosses between kernel and Go; bpf/abi.h says what each is.
type (
	Block = abi.LoopBlock
	Rule  = abi.LoopRule
)

const (
	blockRows   = int(abi.LoopLimitsBLOCK_ROWS)
	ruleBits    = uint(abi.LoopLimitsROW_RULE_BITS)
	pageBits    = uint(abi.LoopLimitsTABLE_PAGE_BITS)
	offsetMask  = 1<<pageBits - 1
	ruleMask    = 1<<ruleBits - 1
	headerWords = uint64(blockRows) // the Go block
)

// maxPages bounds the page index of one table: 8 GiB of ELF addresses.
const maxPages = 1 << 24

// ErrEmpty: a table without rows has no layout.
var ErrEmpty = errors.New("empty unwind table")

// Table is a table as it lies in a slab.
type Table struct {
	Blocks       []Block
	Page0, Pages uint32 // the page index's first page, and how many
}

// Encode lays t out: the Go block, the page index, the rows. g is nil unless it is a Go program's. number gives a rule its
// number among all tables' rules; an error of it is returned as it is.
func Encode(t *unwind.Table, g *gopclntab.Offsets, number func(unwind.Rule) (uint32, error)) (Table, error) {
	if len(t.Rows) == 0 {
		return Table{}, ErrEmpty
	}
	numbers := make([]uint32, len(t.Rules))
	for i, r := range t.Rules {
		n, err := number(r)
		if err != nil {
			return Table{}, err
		}
		numbers[i] = n
	}
	first := uint64(t.Rows[0].Start) >> pageBits
	last := uint64(t.Rows[len(t.Rows)-1].Start) >> pageBits
	if last >= 1<<32 || last-first >= maxPages {
		return Table{}, fmt.Errorf("unwind table spans %#x to %#x", t.Rows[0].Start, t.Rows[len(t.Rows)-1].Start)
	}
	index, rows := encodeRows(t, first, last, numbers)
	header, err := goBlock(g)
	if err != nil {
		return Table{}, err
	}
	blocks := make([]Block, 1, 1+blocksFor(len(index))+blocksFor(len(rows)))
	blocks[0] = header
	e := Table{Blocks: blocks, Page0: uint32(first), Pages: uint32(last-first) + 1}
	e.Blocks = appendBlocks(e.Blocks, index)
	e.Blocks = appendBlocks(e.Blocks, rows)
	return e, nil
}

// encodeRows makes the page index, which has one entry more than there are pages, and the rows. Every page begins with a row
// at its offset 0.
func encodeRows(t *unwind.Table, first, last uint64, numbers []uint32) (index, rows []uint32) {
	pages := int(last-first) + 1
	index = make([]uint32, 0, pages+1)
	rows = make([]uint32, 0, len(t.Rows)+pages)
	current, next := uint32(0), 0
	for p := first; p <= last; p++ {
		index = append(index, uint32(len(rows)))
		start := p << pageBits
		if next == len(t.Rows) || uint64(t.Rows[next].Start) != start {
			rows = append(rows, current)
		}
		for ; next < len(t.Rows) && uint64(t.Rows[next].Start)>>pageBits == p; next++ {
			current = numbers[t.Rows[next].Rule]
			rows = append(rows, uint32(uint64(t.Rows[next].Start)-start)<<ruleBits|current)
		}
	}
	return append(index, uint32(len(rows))), rows
}

func blocksFor(words int) int { return (words + blockRows - 1) / blockRows }

func appendBlocks(blocks []Block, words []uint32) []Block {
	for len(words) > 0 {
		var b Block
		n := copy(b.Row[:], words)
		words = words[n:]
		blocks = append(blocks, b)
	}
	return blocks
}

// goBlock is the first block: struct go_table and nothing behind it.
func goBlock(g *gopclntab.Offsets) (b Block, err error) {
	if g == nil {
		return b, nil
	}
	buf := make([]byte, 4*blockRows)
	_, err = binary.Encode(buf, binary.NativeEndian, &abi.LoopGoTable{
		TlsG: g.TLSG, TlsGot: uint64(g.TLSGot), G_m: g.GM, M_curg: g.MCurg, M_g0: g.MG0,
		SchedSp: g.GSchedSP, SchedPc: g.GSchedPC, SchedFp: g.GSchedBP, SchedLr: g.GSchedLR, G_reg: uint32(g.GReg),
		M_gsignal: g.MGSignal, G_stackHi: g.GStackHi,
	})
	if err != nil {
		return b, fmt.Errorf("encoding where goroutines are: %w", err)
	}
	for i := range b.Row {
		b.Row[i] = binary.NativeEndian.Uint32(buf[4*i:])
	}
	return b, nil
}

// EncodeRule lays a rule out.
func EncodeRule(r unwind.Rule) Rule {
	return Rule{
		Cfa: uint8(r.CFA), Reg: r.Reg, Ra: uint8(r.RA), Save: uint8(r.FP) | uint8(r.BX)<<4,
		Offset: r.Offset, Offset2: r.Offset2,
		RaOffset: r.RAOffset, FpOffset: r.FPOffset, BxOffset: r.BXOffset,
	}
}

// Lookup returns the number of the rule for an ELF virtual address, as BPF finds it; 0 if there is none or the blocks are not
// a table.
func (t Table) Lookup(a unwind.FileAddr) uint32 {
	page := uint64(a) >> pageBits
	if page < uint64(t.Page0) || page-uint64(t.Page0) >= uint64(t.Pages) {
		return 0
	}
	words := uint64(len(t.Blocks)) * uint64(blockRows)
	word := func(i uint64) uint32 { return t.Blocks[i/uint64(blockRows)].Row[i%uint64(blockRows)] }
	index := headerWords + page - uint64(t.Page0)
	if index+1 >= words {
		return 0
	}
	rows := headerWords + (uint64(t.Pages)/uint64(blockRows)+1)*uint64(blockRows)
	lo, hi := rows+uint64(word(index)), rows+uint64(word(index+1))
	if lo >= hi || hi > words {
		return 0
	}
	offset := uint32(uint64(a) & offsetMask)
	after := sort.Search(int(hi-lo), func(i int) bool { return word(lo+uint64(i))>>ruleBits > offset })
	if after == 0 {
		return 0
	}
	return word(lo+uint64(after)-1) & ruleMask
}
