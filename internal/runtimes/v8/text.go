package v8

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// A string's instance type says how it is represented: src/objects/instance-type.h.
const (
	stringRepresentation = 7
	stringSequential     = 0
	stringCons           = 1
	stringExternal       = 2
	stringSliced         = 3
	stringThin           = 5
	stringOneByte        = 8
	stringUncached       = 16 // an external one that does not say where its characters are
)

// piece is a run of characters of a string: Latin-1 or UTF-16.
type piece struct {
	at   uint64
	n    int // characters
	wide bool
}

// charBytes is what a character takes.
func (p piece) charBytes() int {
	if p.wide {
		return 2
	}
	return 1
}

func (p piece) bytes() int { return p.n * p.charBytes() }

// part is some of a string that is to be looked at.
type part struct {
	v        uint64
	from, to int // characters; to is at least what the string has if all of it is meant
}

// pieces finds where the characters of a string are, up to so many.
func (h *heap) pieces(v uint64, most int) (out []piece, whole bool) {
	rest := []part{{v, 0, int(^uint(0) >> 1)}}
	total := 0
	for looked := 0; len(rest) > 0 && h.err == nil; looked++ {
		if looked >= maxParts {
			return out, false
		}
		p := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		o, typ := h.typed(p.v)
		if !h.isString(typ) {
			h.stale("string", p.v)
			return nil, false
		}
		length := int(h.half(o + 12))
		p.to = min(p.to, length)
		if length < 0 || length > 1<<30 || p.from >= p.to {
			continue
		}
		wide := typ&stringOneByte == 0
		at := uint64(0)
		switch typ & stringRepresentation {
		case stringSequential:
			at = o + 16
		case stringExternal:
			if typ&stringUncached != 0 {
				h.stale("characters of a string", p.v)
				return nil, false
			}
			at = h.field(o, 24)
		case stringThin:
			rest = append(rest, part{h.field(o, 16), p.from, p.to})
			continue
		case stringSliced:
			by := smi(h.field(o, 24))
			if by < 0 || by > 1<<30 {
				h.stale("string", p.v)
				return nil, false
			}
			rest = append(rest, part{h.field(o, 16), p.from + by, p.to + by})
			continue
		case stringCons:
			first, second := h.field(o, 16), h.field(o, 24)
			other, typ := h.typed(first)
			if !h.isString(typ) {
				h.stale("string", first)
				return nil, false
			}
			n := int(h.half(other + 12))
			rest = append(rest, part{second, max(p.from-n, 0), p.to - n}, part{first, p.from, p.to})
			if p.to <= n {
				rest = append(rest[:len(rest)-2], rest[len(rest)-1])
			}
			continue
		default:
			h.stale("string", p.v)
			return nil, false
		}
		size := uint64(1)
		if wide {
			size = 2
		}
		n := min(p.to-p.from, most-total)
		out = append(out, piece{at + size*uint64(p.from), n, wide})
		if total += n; n < p.to-p.from {
			return out, false
		}
	}
	return out, h.err == nil
}

// text reads a string; long ones end with an ellipsis.
func (h *heap) text(v uint64) string {
	pieces, whole := h.pieces(v, maxName)
	var out []byte
	var units []uint16
	for _, p := range pieces {
		size := 1
		if p.wide {
			size = 2
		}
		b := make([]byte, p.n*size)
		if h.err == nil {
			if err := h.mem.Read(unwind.Addr(p.at), b); err != nil {
				h.fail(err)
			}
		}
		if h.err != nil {
			return ""
		}
		for i := range p.n {
			if p.wide {
				units = append(units, binary.LittleEndian.Uint16(b[2*i:]))
			} else {
				units = append(units, uint16(b[i]))
			}
		}
	}
	for _, r := range utf16.Decode(units) {
		out = utf8.AppendRune(out, r)
	}
	if h.err == nil && !whole {
		out = append(out, "…"...)
	}
	return string(out)
}
