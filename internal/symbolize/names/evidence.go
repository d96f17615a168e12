package names

import (
	"bytes"
	"strings"
)

const (
	maxUnits     = 4096 // of all compilers: what is beyond is not known
	maxUnit      = 64   // bytes of a unit's name
	unitOverhead = 64   // about what an entry takes beside its name
)

// Evidence is what the names in a file's symbol tables tell about compilers whose linkage names look like anyone's. It is
// empty at first, and takes some 0.5 MiB at most.
type Evidence struct {
	found Compilers
	units map[unit]struct{}
	bytes int
}

// unit is a library unit of Ada's without its children, or a module of Nim's.
type unit struct {
	by   Compilers
	name string
}

// Add takes a name from a symbol table, a function's or another.
func (e *Evidence) Add(name []byte) {
	switch {
	case bytes.HasPrefix(name, []byte("__gnat_")): // of Ada's runtime library
		e.found |= GNAT
	case bytes.HasPrefix(name, []byte("NimMain")): // what runs the modules' top level
		e.found |= Nim
	case bytes.HasSuffix(name, []byte("stg_upd_frame_info")): // of Haskell's runtime system: what updates a thunk
		e.found |= GHC
	case bytes.HasPrefix(name, []byte("_ada_")): // a library procedure
		e.ada(name[len("_ada_"):])
	case bytes.HasSuffix(name, []byte("_E")): // counts the elaborations of a unit
		e.ada(name[:len(name)-len("_E")])
	case bytes.HasSuffix(name, []byte("___elabb")), bytes.HasSuffix(name, []byte("___elabs")):
		e.ada(name[:len(name)-len("___elabb")])
	case bytes.HasPrefix(name, []byte("@m")) && bytes.HasSuffix(name, []byte(".nim.c")):
		e.nim(name[len("@m") : len(name)-len(".nim.c")])
	}
}

func (e *Evidence) ada(name []byte) {
	name, _, _ = bytes.Cut(name, []byte("__"))
	if len(name) <= maxUnit && adaName(string(name)) {
		e.add(unit{GNAT, string(name)})
	}
}

// nim takes the path of a module's source, which has @s for a slash.
func (e *Evidence) nim(path []byte) {
	if i := bytes.LastIndex(path, []byte("@s")); i >= 0 {
		path = path[i+len("@s"):]
	}
	if len(path) > 0 && len(path) <= maxUnit {
		e.add(unit{Nim, nimModule(string(path))})
	}
}

func (e *Evidence) add(u unit) {
	if _, known := e.units[u]; known || len(e.units) >= maxUnits {
		return
	}
	if e.units == nil {
		e.units = map[unit]struct{}{}
	}
	e.units[u] = struct{}{}
	e.bytes += len(u.name) + unitOverhead
}

// Complete is to be called after the last Add: it gives back what is of no use.
func (e *Evidence) Complete() {
	if e.found&(GNAT|Nim) == 0 {
		e.units, e.bytes = nil, 0
	}
}

// Bytes is about the memory that it takes.
func (e *Evidence) Bytes() int { return e.bytes }

// Of returns the compilers that may have made a symbol of the file: theirs are its form, their runtime, and, where the form is
// one that C's programmers like too, the unit that it is of.
func (e *Evidence) Of(symbol string) Compilers {
	c := Suspects(symbol) & e.found
	if c&GNAT != 0 && !strings.HasPrefix(symbol, "_ada_") {
		first, _, _ := strings.Cut(symbol, "__")
		if _, ok := e.units[unit{GNAT, first}]; !ok {
			c &^= GNAT
		}
	}
	if c&Nim != 0 {
		base, _ := cutClone(symbol)
		_, module, hashed := nimParts(base)
		if _, ok := e.units[unit{Nim, nimModule(module)}]; !ok && !hashed {
			c &^= Nim
		}
	}
	return c
}
