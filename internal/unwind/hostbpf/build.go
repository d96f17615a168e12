// Package hostbpf runs the BPF programs' own C code in user space: a program that is built from bpf/host takes samples of a
// process that the caller describes. It is for tests only and needs a C compiler, whose sanitizers watch the code. It is a
// program of its own rather than a part of the tests, so that it is built anew whenever its sources change, both variants
// and architectures can be there at once, and a crash is an error.
package hostbpf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Variant is one of the two builds of the walk, see bpf/core/drive.h.
type Variant string

// The variants.
const (
	Loop Variant = "LOOP"
	Tail Variant = "TAIL"
)

// Variants lists them.
func Variants() []Variant { return []Variant{Loop, Tail} }

// flags: GNU's C for statement expressions and typeof; clang's attributes for BPF mean nothing here.
func flags(arch unwind.Arch, v Variant) ([]string, error) {
	target, ok := map[unwind.Arch]string{unwind.ArchAMD64: "x86", unwind.ArchARM64: "arm64"}[arch]
	if !ok {
		return nil, fmt.Errorf("no host build for architecture %v", arch)
	}
	return []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-attributes", "-Wno-unused-parameter",
		"-Wno-sign-compare", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-DHOSTPROFILES_HOST", "-DVARIANT_" + string(v), "-D__TARGET_ARCH_" + target}, nil
}

// moduleRoot is the directory of go.mod, from wherever a test runs.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the module: no go.mod above the working directory")
		}
		dir = parent
	}
}

// build compiles the host build unless it is in the module's .cache already, and returns the path of the program.
func build(arch unwind.Arch, v Variant) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	args, err := flags(arch, v)
	if err != nil {
		return "", err
	}
	sum, err := hash(filepath.Join(root, "bpf"), args)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "hostbpf")
	program := filepath.Join(dir, strings.ToLower(string(v))+"-"+arch.String()+"-"+sum)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a place for the host build: %w", err)
	}
	out, err := os.CreateTemp(dir, "build-")
	if err != nil {
		return "", fmt.Errorf("making a place for the host build: %w", err)
	}
	defer os.Remove(out.Name()) // it has another name if all went well
	out.Close()
	cc := exec.Command("cc", append(args, "-o", out.Name(), filepath.Join(root, "bpf", "host", "host.c"))...)
	if text, err := cc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling bpf/host/host.c: %w\n%s", err, text)
	}
	// Others may build the same at this moment: either is good.
	if err := os.Rename(out.Name(), program); err != nil {
		return "", fmt.Errorf("keeping the host build: %w", err)
	}
	return program, nil
}

// hash is over all that the program is made of, except for the compiler.
func hash(dir string, args []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, args)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintln(h, path, len(text))
		h.Write(text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the sources of the host build: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
