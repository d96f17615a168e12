package kallsyms

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
)

const (
	bufferSize = 256 << 10 // and the longest line; the kernel's are below 1 KiB

	maxSymbols = 4 << 20
	maxNames   = 256 << 20 // bytes
	maxModules = math.MaxUint16
)

// coreText identifies the text of the kernel's own symbols.
type coreText struct {
	size int64 // bytes
	sum  uint32

	begin, end uint64 // addresses of _stext and _etext; 0 if they are not there
}

// TextBegin and TextEnd are the symbols that linker scripts put where the kernel's code begins and ends:
// include/asm-generic/sections.h of Linux 6.12.
const TextBegin, TextEnd = "_stext", "_etext"

// parser turns text into parts.
type parser struct {
	in      lines
	count   int
	nonzero bool // an address other than 0 was seen
}

// line is one symbol as it stands in the text; the slices are valid until the next line is read.
type line struct {
	addr   uint64
	kind   kind
	name   []byte
	module []byte // nil for the kernel's own
}

// kind tells what a symbol is good for.
type kind uint8

const (
	// function: it has a name to show.
	function kind = iota
	// marker: the linker script made it, to tell where something begins; a name only if there is no other.
	marker
	// boundary: what lies before it ends here; not a name.
	boundary
	// nothing: an assembler's note inside a function.
	nothing
)

// parseCore reads up to the first symbol of a module, which stays unread.
func (p *parser) parseCore() (*part, coreText, error) {
	var b builder
	var text coreText
	for {
		raw, err := p.in.peek()
		if err == io.EOF && text.size == 0 {
			return nil, text, fmt.Errorf("%w: it is empty", ErrMalformed)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, text, fmt.Errorf("reading kernel symbols: %w", err)
		}
		l, err := p.parseLine(raw)
		if err != nil {
			return nil, text, err
		}
		if l.module != nil {
			break
		}
		switch string(l.name) {
		case TextBegin:
			text.begin = l.addr
		case TextEnd:
			text.end = l.addr
		}
		if err := p.add(&b, l, 0); err != nil {
			return nil, text, err
		}
		text.size += int64(len(raw))
		text.sum = crc32.Update(text.sum, crc32.IEEETable, raw)
		p.in.advance(len(raw))
	}
	part, err := b.finish(nil)
	return part, text, err
}

// skipCore passes over the same text again.
func (p *parser) skipCore(text coreText) error {
	h := crc32.NewIEEE()
	_, err := io.CopyBuffer(h, io.LimitReader(p.in.r, text.size), p.in.buf)
	if err != nil {
		return fmt.Errorf("reading kernel symbols: %w", err)
	}
	if h.Sum32() != text.sum {
		return ErrChanged
	}
	return nil
}

// parseTail reads to the end: modules, ftrace, BPF, kprobes.
func (p *parser) parseTail(modules io.Reader) (*part, error) {
	extents, err := readModules(modules)
	if err != nil {
		return nil, err
	}
	var b builder
	index := map[string]uint16{}
	for {
		raw, err := p.in.peek()
		if err == io.EOF {
			return b.finish(extents)
		}
		if err != nil {
			return nil, fmt.Errorf("reading kernel symbols: %w", err)
		}
		l, err := p.parseLine(raw)
		if err != nil {
			return nil, err
		}
		m, ok := index[string(l.module)]
		if !ok {
			if len(b.moduleNames) == maxModules {
				return nil, fmt.Errorf("%w: %d modules", ErrTooLarge, maxModules)
			}
			m = uint16(len(b.moduleNames))
			name := string(l.module)
			index[name] = m
			b.moduleNames = append(b.moduleNames, name)
		}
		if err := p.add(&b, l, m); err != nil {
			return nil, err
		}
		p.in.advance(len(raw))
	}
}

func (p *parser) add(b *builder, l line, module uint16) error {
	if p.count++; p.count > maxSymbols || b.names.bytes() > maxNames {
		return fmt.Errorf("%w: %d", ErrTooLarge, p.count)
	}
	if l.addr == 0 {
		return nil
	}
	p.nonzero = true
	if l.kind != nothing {
		b.add(l, module)
	}
	return nil
}

// parseLine takes "ffffffff81000000 T name" or, with a tab, "ffffffffc0000000 t name	[module]".
func (p *parser) parseLine(raw []byte) (line, error) {
	text := bytes.TrimSuffix(raw, []byte("\n"))
	var l line
	i := 0
	for ; i < len(text) && i <= 16; i++ {
		d := hexDigit(text[i])
		if d < 0 {
			break
		}
		l.addr = l.addr<<4 | uint64(d)
	}
	if i == 0 || i > 16 || len(text) < i+4 || text[i] != ' ' || text[i+2] != ' ' {
		return l, fmt.Errorf("%w: line %d: %.80q", ErrMalformed, p.count+1, text)
	}
	typ := text[i+1]
	l.name = text[i+3:]
	if tab := bytes.IndexByte(l.name, '\t'); tab >= 0 {
		owner := l.name[tab+1:]
		if len(owner) < 3 || owner[0] != '[' || owner[len(owner)-1] != ']' {
			return l, fmt.Errorf("%w: line %d: %.80q", ErrMalformed, p.count+1, text)
		}
		l.module, l.name = owner[1:len(owner)-1], l.name[:tab]
	}
	l.kind = boundary
	switch typ {
	case 't', 'T', 'w', 'W':
		l.kind = kindOf(l.name)
	}
	if local(l.name) {
		l.kind = nothing
	}
	return l, nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// kindOf knows the names that linker scripts give to the ends of sections: Linux 6.12, may_be_linker_script_provide_symbol
// in scripts/kallsyms.c, and include/asm-generic/vmlinux.lds.h.
func kindOf(b []byte) kind {
	if len(b) < 5 || b[0] != '_' {
		return function
	}
	switch string(b) {
	case "_text", TextBegin, "_sinittext", "_sexittext":
		return marker
	case TextEnd, "_einittext", "_eexittext":
		return boundary
	}
	if b[1] != '_' {
		return function
	}
	has := func(prefix, suffix string) bool {
		return len(b) > len(prefix)+len(suffix) && string(b[:len(prefix)]) == prefix && string(b[len(b)-len(suffix):]) == suffix
	}
	switch {
	case has("__stop_", ""), has("__end_", ""), has("__", "_end"):
		return boundary
	case has("__start_", ""), has("__", "_start"):
		return marker
	}
	return function
}

// local tells labels that only assemblers care for; modules have them: arm64's mapping symbols, and .L of all.
func local(b []byte) bool {
	if len(b) < 2 {
		return len(b) == 0
	}
	mapping := b[0] == '$' && (b[1] == 'x' || b[1] == 'd') && (len(b) == 2 || b[2] == '.')
	return mapping || b[0] == '.' && b[1] == 'L'
}

// lines reads line by line without copying.
type lines struct {
	r          io.Reader
	buf        []byte
	start, end int
	err        error
}

// peek returns the next line with its newline, without going past it; io.EOF after the last.
func (l *lines) peek() ([]byte, error) {
	for scanned := 0; ; {
		if n := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); n >= 0 {
			return l.buf[l.start : l.start+scanned+n+1], nil
		}
		scanned = l.end - l.start
		if l.err != nil {
			if l.err == io.EOF && scanned > 0 {
				return l.buf[l.start:l.end], nil
			}
			return nil, l.err
		}
		if scanned == len(l.buf) {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrMalformed, len(l.buf))
		}
		copy(l.buf, l.buf[l.start:l.end])
		l.start, l.end = 0, scanned
		var n int
		for tries := 0; n == 0 && l.err == nil; tries++ {
			if tries == 100 {
				l.err = io.ErrNoProgress
				break
			}
			n, l.err = l.r.Read(l.buf[l.end:])
		}
		l.end += n
	}
}

func (l *lines) advance(n int) { l.start += n }

// readModules reads /proc/modules: name, bytes, references, dependents, state, address. It returns where each module
// lies; nil for a nil reader. Addresses are 0 where they are hidden.
func readModules(r io.Reader) (map[string]extent, error) {
	if r == nil {
		return nil, nil
	}
	extents := map[string]extent{}
	in := lines{r: r, buf: make([]byte, 16<<10)}
	for {
		raw, err := in.peek()
		if err == io.EOF {
			return extents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading kernel modules: %w", err)
		}
		var name, deps, state string
		var size, start uint64
		var refs string
		if n, err := fmt.Sscanf(string(raw), "%s %d %s %s %s 0x%x", &name, &size, &refs, &deps, &state, &start); n < 6 {
			return nil, fmt.Errorf("%w: /proc/modules: %.80q: %v", ErrMalformed, strings.TrimSpace(string(raw)), err)
		}
		if start != 0 && start+size > start && len(extents) < maxModules {
			extents[name] = extent{start, start + size}
		}
		in.advance(len(raw))
	}
}
