package kernelfile

import (
	"bufio"
	"io"
	"os"
	"path"
	"strings"
)

// maxDependencies bounds what is read of modules.dep, which has some 700 KiB.
const maxDependencies = 8 << 20

// Opener opens files below a root by their absolute paths; see debugfile.Root.
type Opener interface {
	Open(path string) (*os.File, error)
}

// VmlinuxPaths are where distributions, and who builds kernels, put the file with the debug information of a kernel release (what
// uname -r prints): Debian and Ubuntu, Fedora and openSUSE, modules_install, a tree that the kernel was built in.
func VmlinuxPaths(release string) []string {
	if !isName(release) {
		return nil
	}
	return []string{
		"/usr/lib/debug/boot/vmlinux-" + release,
		"/usr/lib/debug/lib/modules/" + release + "/vmlinux",
		"/usr/lib/debug/boot/vmlinux-" + release + ".debug",
		"/lib/modules/" + release + "/vmlinux",
		"/lib/modules/" + release + "/build/vmlinux",
		"/boot/vmlinux-" + release,
	}
}

// ModulePaths are where the debug information of a module of a kernel release may be: in the tree of debug files, below the name that
// modules.dep has, in the module itself if it is not compressed, and where the kernel was built.
func ModulePaths(root Opener, release, module string) (paths []string) {
	if !isName(release) || !isName(module) {
		return nil
	}
	name := modulePath(root, release, module)
	if name == "" {
		return nil
	}
	for _, suffix := range []string{".xz", ".zst", ".gz"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return []string{
		"/usr/lib/debug/lib/modules/" + release + "/" + name,
		"/usr/lib/debug/lib/modules/" + release + "/" + name + ".debug",
		"/lib/modules/" + release + "/" + name,
		"/lib/modules/" + release + "/build/" + strings.TrimPrefix(name, "kernel/"),
	}
}

// isName tells whether a name can be a part of a path.
func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// modulePath looks a module's file up in modules.dep(5): "kernel/net/netfilter/nf_tables.ko.xz: kernel/lib/...". Dashes in a file's name
// are underscores in the module's.
func modulePath(root Opener, release, module string) string {
	f, err := root.Open("/lib/modules/" + release + "/modules.dep")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.NewSectionReader(f, 0, maxDependencies))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		file, _, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		name, _, ok := strings.Cut(path.Base(file), ".ko")
		if !ok || strings.ReplaceAll(name, "-", "_") != module {
			continue
		}
		if clean := path.Clean("/" + file); !path.IsAbs(file) {
			return clean[1:]
		}
		return "" // depmod was told of another base directory
	}
	return ""
}
