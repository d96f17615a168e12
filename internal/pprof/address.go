package pprof

import (
	"path"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// maxAddressFile bounds the name of a file that addressName takes up, in bytes.
const maxAddressFile = 4096

// addressName names a function that nobody has named by the address at which it begins, as the views show it: libfoo.so+0x1100. Tools
// for pprof would make one function of all such code of a file. Its system name is attrFunction, which tells it from names of others. ok is false if the file's name is too long for that.
func addressName(file string, address uint64) (name string, ok bool) {
	name = "0x" + strconv.FormatUint(address, 16)
	if file == "" {
		return name, true
	}
	base := path.Base(file)
	return base + "+" + name, len(strings.ToValidUTF8(base, "\uFFFD")) <= maxAddressFile
}

func mappingFile(l *profile.Location) string {
	if l.Mapping == nil {
		return ""
	}
	return l.Mapping.File
}

// functionAddress is the inverse of addressName: the address of the function of a location that has nothing but such a name.
func functionAddress(l *profile.Location) (address uint64, ok bool) {
	var one *profile.Line
	for i := range l.Line {
		if !hasName(l.Line[i].Function) {
			continue
		}
		if one != nil {
			return 0, false
		}
		one = &l.Line[i]
	}
	if one == nil || one.Line > 0 || one.Column > 0 {
		return 0, false
	}
	f := one.Function
	if f.SystemName != attrFunction || f.Filename != "" || f.StartLine > 0 {
		return 0, false
	}
	address, err := strconv.ParseUint(f.Name[strings.LastIndexByte(f.Name, 'x')+1:], 16, 64)
	if err != nil {
		return 0, false
	}
	name, ok := addressName(mappingFile(l), address)
	return address, ok && name == f.Name
}

// linesOf returns the lines of a location, without those whose function has no name but its address.
func linesOf(l *profile.Location) (lines []profile.Line) {
	if _, ok := functionAddress(l); ok {
		return nil
	}
	for _, n := range l.Line {
		if hasName(n.Function) {
			lines = append(lines, n)
		}
	}
	return lines
}
