package kernels

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// guestPrograms are the workloads that a guest profiles. All of them can be compiled for another architecture.
func guestPrograms() []string {
	return []string{
		"c", "c-stripped", "c-static", "c-nopie", "c-nohdr", "kernelmode", "kernelmode-static", "threads", "signals",
		"recurse-900", "plt", "go",
	}
}

// archive writes a cpio archive in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst,
// Linux 6.18).
type archive struct {
	w     io.Writer
	inode int
	dirs  []string
	err   error
}

func (a *archive) entry(name string, mode uint32, text []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name)+1, 0)
	_, a.err = io.WriteString(a.w, pad(header+name+"\x00")+pad(string(text)))
}

func pad(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }

func (a *archive) dir(name string) {
	if name == "." || name == "/" || slices.Contains(a.dirs, name) {
		return
	}
	a.dir(filepath.Dir(name))
	a.dirs = append(a.dirs, name)
	a.entry(strings.TrimPrefix(name, "/"), 0o40755, nil)
}

// file copies a file to a path in the archive, once.
func (a *archive) file(to, from string) {
	if a.err != nil || slices.Contains(a.dirs, to) {
		return
	}
	text, err := os.ReadFile(from)
	if err != nil {
		a.err = err
		return
	}
	a.dir(filepath.Dir(to))
	a.dirs = append(a.dirs, to)
	a.entry(strings.TrimPrefix(to, "/"), 0o100755, text)
}

// tree copies what is below a folder, with its symbolic links.
func (a *archive) tree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("packing %s: %w", from, err)
		}
		inGuest := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case d.IsDir():
			a.dir(inGuest)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return fmt.Errorf("packing %s: %w", from, err)
			}
			a.dir(filepath.Dir(inGuest))
			a.entry(strings.TrimPrefix(inGuest, "/"), 0o120777, []byte(target))
		case d.Type().IsRegular():
			a.file(inGuest, path)
		}
		return a.err
	})
}

// writeInitramfs builds everything that a guest of the architecture needs, with what it shall profile.
func writeInitramfs(path, arch, root string, programs func(*archive) error) error {
	guest := filepath.Join(filepath.Dir(path), "guest-"+arch)
	cmd := exec.Command("go", "build", "-trimpath", "-o", guest, "./test/kernels/guest")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the guest: %w\n%s", err, text)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the initramfs: %w", err)
	}
	defer func() { _ = f.Close() }()
	a := &archive{w: f}
	a.dir("/dev")
	a.entry("dev/console", 0o20600, nil)
	a.file("/init", guest)
	if err := programs(a); err != nil {
		return err
	}
	a.entry("TRAILER!!!", 0, nil)
	if a.err != nil {
		return fmt.Errorf("writing the initramfs: %w", a.err)
	}
	return f.Close()
}

// withModules writes an initramfs with the modules of a kernel: an archive behind the one that all kernels of the architecture get.
func withModules(path, initramfs, modules string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the initramfs: %w", err)
	}
	defer func() { _ = f.Close() }()
	common, err := os.ReadFile(initramfs)
	if err != nil {
		return fmt.Errorf("reading the initramfs: %w", err)
	}
	if _, err := io.WriteString(f, pad(string(common))); err != nil {
		return fmt.Errorf("writing the initramfs: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(modules, "*.ko"))
	if err != nil {
		return fmt.Errorf("looking for modules: %w", err)
	}
	a := &archive{w: f}
	for _, from := range files {
		a.file("/modules/"+filepath.Base(from), from)
	}
	a.entry("TRAILER!!!", 0, nil)
	if a.err != nil {
		return fmt.Errorf("writing modules: %w", a.err)
	}
	return f.Close()
}

// workloads are guestPrograms, for a guest that judges the walk by a kernel.
func (a *archive) workloads(arch string) error {
	b, err := workloads.NewBuilder()
	if err != nil {
		return err
	}
	b.Arch = arch
	var programs []workloads.Built
	for _, name := range guestPrograms() {
		p, ok := workloads.Find(name)
		if !ok {
			return fmt.Errorf("there is no workload %s", name)
		}
		built, err := b.Build(p)
		if err != nil {
			return err
		}
		inGuest := built
		inGuest.Libraries = nil
		for _, l := range built.Libraries {
			to := filepath.Join("/workloads", name, filepath.Base(l))
			a.file(to, l)
			inGuest.Libraries = append(inGuest.Libraries, to)
		}
		inGuest.Path = filepath.Join("/workloads", name, filepath.Base(built.Path))
		inGuest.Full = filepath.Join("/workloads", name, filepath.Base(built.Full))
		a.file(inGuest.Path, built.Path)
		a.file(inGuest.Full, built.Full)
		if err := a.dependencies(built.Path, arch); err != nil {
			return err
		}
		programs = append(programs, inGuest)
	}
	text, err := json.Marshal(programs)
	if err != nil {
		return fmt.Errorf("describing workloads: %w", err)
	}
	a.entry("workloads.json", 0o100644, text)
	return nil
}

// dependencies adds the C library and the dynamic loader of a program, from the compiler's own.
func (a *archive) dependencies(path, arch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	needed, _ := f.ImportedLibraries() // a static executable has none
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return fmt.Errorf("reading the loader's name of %s: %w", path, err)
			}
			loader := strings.TrimRight(string(text), "\x00")
			a.file(loader, fromCompiler(arch, filepath.Base(loader)))
		}
	}
	for _, library := range needed {
		if from := fromCompiler(arch, library); filepath.IsAbs(from) {
			a.file("/lib/"+library, from)
		}
	}
	return nil
}

// fromCompiler asks the C compiler where a file of its C library is; a name that it does not know comes back as it is.
func fromCompiler(arch, name string) string {
	cc := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + "-linux-gnu-gcc"
	out, err := exec.Command(cc, "-print-file-name="+name).Output()
	if err != nil {
		return name
	}
	return strings.TrimSpace(string(out))
}
