package gopclntab

import (
	"debug/elf"
	"encoding/binary"
	"regexp"
	"strconv"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// buildInfoMagic begins the blob that cmd/link puts into .go.buildinfo, 16-byte aligned (Go 1.18 to 1.27,
	// debug/buildinfo): magic, pointer size, flags, padding to 32 bytes, then version and module info, each with its
	// length as a varint before it.
	buildInfoMagic  = "\xff Go buildinf:"
	buildInfoInline = 2 // flag: strings follow inline
	buildInfoSize   = 32

	maxVersion   = 128
	buildInfoMax = 4 << 20 // bytes of the writable segment searched; the linker puts it first
)

type buildInfo struct {
	found   bool
	version string
}

// findBuildInfo finds the version of Go that the file was built by.
func findBuildInfo(f *elffile.File, mem *pager) buildInfo {
	parts := make([]part, 0, 4)
	if s := f.Section(".go.buildinfo"); s != nil && s.Flags&elf.SHF_ALLOC != 0 {
		parts = append(parts, part{s.Addr, s.Size})
	} else if len(f.Sections) == 0 {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X == 0 {
				parts = append(parts, part{p.VAddr, min(p.FileSize, buildInfoMax)})
			}
		}
	}
	var info buildInfo
	magic := binary.LittleEndian.Uint64([]byte(buildInfoMagic))
	for _, p := range parts {
		scan(mem, p, func(a unwind.FileAddr, word uint64) bool {
			if word == magic && a%16 == 0 {
				info = readBuildInfo(mem, a)
			}
			return !info.found
		})
		if info.found {
			break
		}
	}
	return info
}

func readBuildInfo(mem *pager, a unwind.FileAddr) (info buildInfo) {
	b := mem.bytes(a, buildInfoSize)
	if b == nil || string(b[:14]) != buildInfoMagic {
		return info
	}
	info.found = true
	if b[15]&buildInfoInline == 0 {
		return info
	}
	v := mem.bytes(a+buildInfoSize, 10)
	if v == nil {
		return info
	}
	size, n := binary.Uvarint(v)
	if n <= 0 || size > maxVersion {
		return info
	}
	if v = mem.bytes(a+buildInfoSize+unwind.FileAddr(n), int(size)); v != nil {
		info.version = string(v)
	}
	return info
}

// goVersion is a version of Go 1.
type goVersion struct{ minor, patch int }

var versionPattern = regexp.MustCompile(`\bgo1\.([0-9]{1,3})(?:\.([0-9]{1,3}))?`)

// parseVersion understands what runtime.Version returns: "go1.26.3", "go1.27rc1", "go1.25.1 X:nocoverageredesign",
// "devel go1.28-0123abc ...".
func parseVersion(s string) (v goVersion, ok bool) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	v.minor, _ = strconv.Atoi(m[1])
	v.patch, _ = strconv.Atoi(m[2])
	return v, true
}
