package workloads

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"
)

// ErrNotHere is wrapped by Build's error for a program that cannot be built for the Builder's architecture on this machine.
var ErrNotHere = errors.New("no compiler for this architecture")

// Builder compiles programs into a cache.
type Builder struct {
	Source string // testdata/workloads
	Cache  string // a folder per recipe is made in it
	Arch   string // GOARCH's name of the architecture to compile for
}

// NewBuilder returns a Builder for this machine, with its paths found from the module's root, which is the working
// directory or one above it.
func NewBuilder() (*Builder, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	return &Builder{
		Source: filepath.Join(root, "testdata", "workloads"), Cache: filepath.Join(root, ".cache", "workloads"), Arch: runtime.GOARCH,
	}, nil
}

// ModuleRoot returns the nearest folder with a go.mod, from the working directory upwards.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module's root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("finding the module's root: no go.mod above the working directory")
		}
		dir = up
	}
}

// Built is a compiled program.
type Built struct {
	Program
	Path string // of the executable
	// Full is the executable with symbols: Path itself, or the twin of a stripped one. Addresses in both are the same.
	Full string
	// Libraries are the paths of the libraries beside it.
	Libraries []string
}

// Build compiles the program unless the cache has it. A compiler that is missing is named by the error.
func (b *Builder) Build(p Program) (Built, error) {
	if p.native && b.Arch != runtime.GOARCH || p.amd64 && b.Arch != "amd64" {
		return Built{}, fmt.Errorf("building workload %s for %s: %w", p.Name, b.Arch, ErrNotHere)
	}
	key, err := b.key(p)
	if err != nil {
		return Built{}, fmt.Errorf("building workload %s: %w", p.Name, err)
	}
	dir := filepath.Join(b.Cache, p.Name+"-"+b.Arch+"-"+key)
	if _, err := os.Stat(dir); err != nil {
		if err := b.compile(p, dir); err != nil {
			return Built{}, fmt.Errorf("building workload %s: %w", p.Name, err)
		}
	}
	built := Built{Program: p, Path: filepath.Join(dir, p.Name), Full: filepath.Join(dir, p.Name)}
	if p.stripped {
		built.Full += ".full"
	}
	for _, l := range p.libraries {
		built.Libraries = append(built.Libraries, filepath.Join(dir, l))
	}
	return built, nil
}

// compile runs the recipe in a scratch folder that becomes dir when all of it worked: two builders may be at it at once.
func (b *Builder) compile(p Program, dir string) error {
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(b.Cache, "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.Chmod(scratch, 0o755); err != nil {
		return err
	}
	for _, s := range p.steps {
		if err := b.run(p, s, scratch); err != nil {
			return err
		}
	}
	if err := os.Rename(scratch, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b.prune(dir)
	return nil
}

// keepFor is how long an outdated program stays: another builder may just be running it.
const keepFor = time.Hour

// prune removes what was built of the same program before.
func (b *Builder) prune(dir string) {
	older, _ := filepath.Glob(dir[:len(dir)-keyLength] + strings.Repeat("?", keyLength)) // the pattern is well formed
	for _, o := range older {
		if info, err := os.Stat(o); err == nil && o != dir && time.Since(info.ModTime()) > keepFor {
			_ = os.RemoveAll(o) // a leftover does no harm
		}
	}
}

const keyLength = 16

func (b *Builder) run(p Program, s step, out string) error {
	argv := make([]string, len(s.argv))
	for i, a := range s.argv {
		argv[i] = b.expand(p, a, out)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("%s is not installed: %w", argv[0], err)
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir = b.expand(p, s.dir, out)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+b.Arch, "GOWORK=off")
	cmd.Env = append(cmd.Env, s.env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, bytes.TrimSpace(text))
	}
	return nil
}

func (b *Builder) expand(p Program, word, out string) string {
	prefix := ""
	if b.Arch != runtime.GOARCH {
		prefix = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[b.Arch] + "-linux-gnu-"
	}
	return strings.NewReplacer("{src}", b.Source, "{out}", out, "{name}", p.Name, "{cc}", prefix+"gcc", "{strip}",
		prefix+"strip").Replace(word)
}

// key hashes what the result depends on: the sources, the commands and the compilers' versions.
func (b *Builder) key(p Program) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(b.Source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return "", err
	}
	for _, s := range p.steps {
		fmt.Fprintf(h, "%q %q %q\n", s.argv, s.dir, s.env)
		path, err := exec.LookPath(b.expand(p, s.argv[0], ""))
		if err != nil {
			return "", fmt.Errorf("%s is not installed: %w", b.expand(p, s.argv[0], ""), err)
		}
		tools := []string{path}
		if s.argv[0] == "sh" {
			tools = append(tools, toolsOf(s.argv[2])...)
		}
		for _, path := range tools {
			if path, err = filepath.EvalSymlinks(path); err != nil {
				return "", err
			}
			info, err := os.Stat(path)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:keyLength], nil
}

// toolsOf returns the paths of the programs whose names are words of a script: its compilers, and rather too many than too few. One that
// is missing is found out when the script runs.
func toolsOf(script string) (paths []string) {
	words := strings.FieldsFunc(script, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_+.-", r)
	})
	for _, w := range words {
		if path, err := exec.LookPath(w); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
