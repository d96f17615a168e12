// Package functions finds where the function around an address begins, in files that have lost their symbols.
package functions

import (
	"cmp"
	"errors"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/codeflow"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

// Finder finds functions by the search table of .eh_frame_hdr, which it reads as it is asked and keeps no part of, and, once
// List was called, by what that found. The file's reader must stay open as long as it is used. It is for one goroutine at a
// time.
type Finder struct {
	table  *ehframe.Functions
	listed bool
	list   []unwind.Extent // sorted by Start
}

// New reads the header of f's search table. The Finder is never nil; without such a table it finds nothing until List is called,
// which is no error.
func New(f *elffile.File) (*Finder, error) {
	table, err := ehframe.NewFunctions(f)
	return &Finder{table: table}, err
}

// Find returns the first address of the function that has a. ok is false if none is known to. An error is one of reading the
// file.
func (d *Finder) Find(a unwind.FileAddr) (start unwind.FileAddr, ok bool, err error) {
	if start, ok, err = d.table.Find(a); ok || err != nil {
		return start, ok, err
	}
	n, _ := slices.BinarySearchFunc(d.list, a, func(x unwind.Extent, a unwind.FileAddr) int {
		if x.Start <= a {
			return -1
		}
		return 1
	})
	if n == 0 || a >= d.list[n-1].End {
		return 0, false, nil
	}
	return d.list[n-1].Start, true, nil
}

// Listed tells whether List was called, since Unlisted was.
func (d *Finder) Listed() bool { return d.listed }

// Unlisted has Listed say no again. What List found stays until it is called again.
func (d *Finder) Unlisted() { d.listed = false }

// Bytes is about the memory that it holds.
func (d *Finder) Bytes() int {
	return int(unsafe.Sizeof(*d)) + int(unsafe.Sizeof(*d.table)) + cap(d.list)*int(unwind.ExtentBytes)
}

// List reads all FDEs of .eh_frame and .debug_frame of the file, and then follows the code that none of them covers, so that
// Find knows functions that no search table has: static programs have no such table, and musl's libc has no FDEs. It is work
// for all of the file, to be done once, and only for a file with addresses that need it. It takes from f's Budget as it works,
// and nothing in the end: what it keeps is in Bytes. An error says what is missing; the rest is there.
func (d *Finder) List(f *elffile.File) error {
	before := f.Budget().Used()
	defer func() { f.Budget().Keep(before) }()
	d.listed = true
	list, framesErr := ehframe.Extents(f)
	d.list = list
	t, err := covered(f, list)
	if err != nil {
		return errors.Join(framesErr, err)
	}
	found, err := codeflow.Functions(f, t)
	f.Budget().Give(tablebuild.Bytes(t))
	if len(found) > 0 {
		n := len(list) + len(found)
		if tooLarge := f.Budget().Take(uint64(n)*unwind.ExtentBytes, "functions"); tooLarge != nil {
			return errors.Join(framesErr, err, tooLarge)
		}
		d.list = append(append(make([]unwind.Extent, 0, n), list...), found...)
		slices.SortFunc(d.list, func(a, b unwind.Extent) int { return cmp.Compare(a.Start, b.Start) })
	}
	return errors.Join(framesErr, err)
}

// covered is a table with some rule where the extents are: code that need not be followed. It counts in f's Budget.
func covered(f *elffile.File, list []unwind.Extent) (*unwind.Table, error) {
	b := tablebuild.Builder{Budget: f.Budget()}
	var end unwind.FileAddr
	for _, x := range list {
		if x.Start > end {
			if err := b.Add(end, unwind.Rule{}); err != nil {
				break // Err has it
			}
		}
		if err := b.Add(max(x.Start, end), unwind.Rule{CFA: unwind.CFARoot}); err != nil {
			break
		}
		end = max(end, x.End)
	}
	t := b.Table(end)
	return t, b.Err()
}
