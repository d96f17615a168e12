package ebpf

import (
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
)

// maxTablePages bounds the page index of one table: 16 GiB of ELF addresses.
const maxTablePages = 1 << 24

// errEmptyTable: there is nothing to put into the kernel.
var errEmptyTable = errors.New("empty unwind table")

// encodeTable lays a table out as bpf/abi.h's struct block says: the Go block, the page index, the rows. number gives a
// rule its number among all tables' rules.
func encodeTable(t *unwind.Table, g *gopclntab.Offsets, number func(unwind.Rule) (uint32, error)) (blocks []block, page0 uint32, pages int, err error) {
	if len(t.Rows) == 0 {
		return nil, 0, 0, errEmptyTable
	}
	numbers := make([]uint32, len(t.Rules))
	for i, r := range t.Rules {
		if numbers[i], err = number(r); err != nil {
			return nil, 0, 0, err
		}
	}
	first := uint64(t.Rows[0].Start) >> tablePageBits
	last := uint64(t.Rows[len(t.Rows)-1].Start) >> tablePageBits
	if last >= 1<<32 || last-first >= maxTablePages {
		return nil, 0, 0, fmt.Errorf("unwind table spans %#x to %#x", t.Rows[0].Start, t.Rows[len(t.Rows)-1].Start)
	}
	pages = int(last-first) + 1

	index := make([]uint32, 0, pages+1)
	rows := make([]uint32, 0, len(t.Rows)+pages)
	current, next := uint32(0), 0
	for p := first; p <= last; p++ {
		index = append(index, uint32(len(rows)))
		start := p << tablePageBits
		if next == len(t.Rows) || uint64(t.Rows[next].Start) != start {
			rows = append(rows, current)
		}
		for ; next < len(t.Rows) && uint64(t.Rows[next].Start)>>tablePageBits == p; next++ {
			current = numbers[t.Rows[next].Rule]
			rows = append(rows, uint32(uint64(t.Rows[next].Start)-start)<<rowRuleBits|current)
		}
	}
	index = append(index, uint32(len(rows)))

	blocks = append(blocks, goBlock(g))
	blocks = appendBlocks(blocks, index)
	blocks = appendBlocks(blocks, rows)
	return blocks, uint32(first), pages, nil
}

func appendBlocks(blocks []block, words []uint32) []block {
	for len(words) > 0 {
		var b block
		n := copy(b.Row[:], words)
		words = words[n:]
		blocks = append(blocks, b)
	}
	return blocks
}

func encodeRule(r unwind.Rule) rule {
	return rule{
		Cfa: uint8(r.CFA), Reg: r.Reg, Ra: uint8(r.RA), Save: uint8(r.FP) | uint8(r.BX)<<4,
		Offset: r.Offset, Offset2: r.Offset2,
		RaOffset: r.RAOffset, FpOffset: r.FPOffset, BxOffset: r.BXOffset,
	}
}
