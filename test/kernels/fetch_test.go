package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeApt is what scripts/kernels/fetch.sh asks for packages here: the folder repo has them, as PACKAGE.deb, or as PACKAGE.gone or
// PACKAGE.down what is listed and cannot be had.
const fakeApt = `#!/bin/bash
repo=$(cd "$(dirname "$0")/../.." && pwd)/repo
shift 2
case "$1 $2" in
"cache pkgnames") (cd "$repo" && ls | sed 's/\.[a-z]*$//' | grep "^$3" || true) ;;
"get -qq")
	if [ -e "$repo/$4.gone" ]; then echo "E: Failed to fetch http://mirror/$4_1_amd64.deb  404  Not Found" >&2; exit 100; fi
	if [ -e "$repo/$4.down" ]; then echo "E: Failed to fetch http://mirror/$4_1_amd64.deb  Connection timed out" >&2; exit 100; fi
	cp "$repo/$4.deb" .
	;;
esac
`

// fetching is a copy of the script with packages of its own.
type fetching struct{ root string }

func newFetching(t *testing.T) fetching {
	t.Helper()
	f := fetching{t.TempDir()}
	script, err := os.ReadFile("../../scripts/kernels/fetch.sh")
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "scripts/kernels/fetch.sh", string(script))
	f.write(t, "scripts/kernels/apt.sh", fakeApt)
	return f
}

func (f fetching) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

const (
	newer = "6.1.0-3-cloud-amd64"
	older = "6.1.0-2-cloud-amd64"
)

// pack makes a package with files; one of no contents would count as missing.
func (f fetching) pack(t *testing.T, name string, files ...string) {
	t.Helper()
	f.write(t, "packages/"+name+"/DEBIAN/control", fmt.Sprintf("Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n", name))
	for _, file := range files {
		f.write(t, "packages/"+name+"/lib/"+file, name)
	}
	f.write(t, "repo/none", "")
	cmd := exec.Command("dpkg-deb", "-b", filepath.Join(f.root, "packages", name), filepath.Join(f.root, "repo", name+".deb"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packing %s: %v\n%s", name, err, out)
	}
}

// TestFetch: what the script prints is whole, or it fails and says what is missing; and only what the archive says is gone counts as that.
func TestFetch(t *testing.T) {
	whole := []string{"vmlinuz-6.1", "af_alg.ko", "algif_hash.ko", "wp512.ko", "rmd160.ko"}
	for _, c := range []struct {
		name   string
		listed map[string][]string // a package's files; none: it cannot be had
		why    string              // why such packages cannot be had: gone or down
		cached []string            // of the newer version
		want   string              // the version; empty: it fails
		says   string
		gone   bool // whether the newer version is kept in mind as gone
	}{
		{name: "one package", listed: map[string][]string{"linux-image-" + newer: whole}, want: newer},
		{name: "several packages", want: newer, listed: map[string][]string{
			"linux-image-" + newer: {"none"}, "linux-binary-" + newer: whole[:1], "linux-modules-" + newer: whole[1:]}},
		{name: "gone", want: older, gone: true, why: "gone", listed: map[string][]string{
			"linux-image-" + newer: nil, "linux-image-" + older: whole}},
		{name: "the mirror is down", says: "downloading linux-image-" + newer + " failed", why: "down", listed: map[string][]string{
			"linux-image-" + newer: nil, "linux-image-" + older: whole}},
		{name: "the modules cannot be had", says: "downloading linux-modules-" + newer + " failed", why: "down", listed: map[string][]string{
			"linux-image-" + newer: whole[:1], "linux-modules-" + newer: nil}},
		{name: "a module is missing", says: "lack rmd160.ko", listed: map[string][]string{"linux-image-" + newer: whole[:4]}},
		{name: "an older script left half", want: newer, cached: []string{"vmlinuz"}, listed: map[string][]string{"linux-image-" + newer: whole}},
		{name: "half is left and the rest gone", says: "lacks af_alg.ko", cached: []string{"vmlinuz"}, why: "gone", listed: map[string][]string{
			"linux-image-" + newer: nil, "linux-image-" + older: whole}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFetching(t)
			for name, files := range c.listed {
				if files == nil {
					f.write(t, "repo/"+name+"."+c.why, "")
					continue
				}
				f.pack(t, name, files...)
			}
			cache := filepath.Join(f.root, ".cache", "kernels")
			for _, name := range c.cached {
				f.write(t, ".cache/kernels/"+newer+"/"+name, "x")
			}
			var said strings.Builder
			cmd := exec.Command(filepath.Join(f.root, "scripts/kernels/fetch.sh"), "suite:6.1", "amd64")
			cmd.Stderr = &said
			out, err := cmd.Output()
			if (err != nil) != (c.want == "") || !strings.Contains(said.String(), c.says) {
				t.Errorf("%v: %s", err, said.String())
			}
			if _, err := os.Stat(filepath.Join(cache, "gone-"+newer)); (err == nil) != c.gone {
				t.Errorf("kept in mind as gone: %v", err == nil)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "fetch.*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			if c.want == "" {
				return
			}
			if want := c.want + "=" + filepath.Join(cache, c.want, "vmlinuz") + "\n"; string(out) != want {
				t.Errorf("it prints %q, want %q", out, want)
			}
			var got []string
			files, _ := os.ReadDir(filepath.Join(cache, c.want))
			for _, file := range files {
				got = append(got, file.Name())
			}
			if want := []string{"af_alg.ko", "algif_hash.ko", "rmd160.ko", "vmlinuz", "wp512.ko"}; !slices.Equal(got, want) {
				t.Errorf("the folder has %q", got)
			}
		})
	}
}
