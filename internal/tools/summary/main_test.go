package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run tests a small module with the real go command.
func run(t *testing.T, files map[string]string) (*summary, string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	stdout, _ := cmd.Output() // its exit status is what the summary must find out by itself
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(string(stdout))); err != nil {
		t.Fatal(err)
	}
	s.finish()
	return s, out.String()
}

func check(t *testing.T, s *summary, out string, passed, failed, skipped int, wants ...string) {
	t.Helper()
	if s.passed != passed || s.failed != failed || s.skipped != skipped {
		t.Errorf("%d, %d, %d instead of %d, %d, %d", s.passed, s.failed, s.skipped, passed, failed, skipped)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

const head = "package a\n\nimport \"testing\"\n\n"

func TestCounts(t *testing.T) {
	s, out := run(t, map[string]string{
		"a/a_test.go": head + `
func TestPass(t *testing.T) { t.Log("quiet") }
func TestSkip(t *testing.T) { t.Skip("no kernel here") }
func TestFail(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("it broke") }) }`,
		"b/b_test.go": head + `
func TestPass(t *testing.T) {}`,
	})
	check(t, s, out, 2, 2, 1, "it broke", "example/a TestSkip: a_test.go", "no kernel here", "ok  \texample/b", "2 passed, 2 failed, 1 skipped\n")
	if strings.Contains(out, "quiet") {
		t.Error("output of a test that passed")
	}
}

func TestPackageThatDoesNotBuild(t *testing.T) {
	s, out := run(t, map[string]string{
		"a/a_test.go": head + `func TestPass(t *testing.T) { undefined() }`,
		"b/b_test.go": head + `func TestPass(t *testing.T) {}`,
	})
	check(t, s, out, 1, 1, 0, "undefined: undefined", "1 passed, 1 failed")
}

func TestPanicAndExit(t *testing.T) {
	s, out := run(t, map[string]string{
		"a/a_test.go": head + `func TestPanic(t *testing.T) { panic("oh") }`,
		"b/b_test.go": "package b\n\nimport (\"os\"; \"testing\")\n\nfunc TestExit(t *testing.T) { os.Exit(3) }",
		"c/c_test.go": "package c\n\nimport (\"os\"; \"testing\")\n\nfunc TestMain(m *testing.M) { m.Run(); println(\"leak\"); os.Exit(3) }\nfunc TestPass(t *testing.T) {}",
	})
	if s.failed < 3 {
		t.Errorf("%d failures instead of one for each package:\n%s", s.failed, out)
	}
	check(t, s, out, s.passed, s.failed, 0, "panic: oh")
}

// TestSlow names the tests that took long, the slowest first, and no part of them.
func TestSlow(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	events := ""
	for i, name := range []string{"TestQuick", "TestSlow", "TestSlow/part", "TestSlower"} {
		events += fmt.Sprintf(`{"Action":"pass","Package":"a","Test":%q,"Elapsed":%d}`+"\n", name, i*9)
	}
	for i := range slowTests {
		events += fmt.Sprintf(`{"Action":"fail","Package":"b","Test":"Test%d","Elapsed":10}`+"\n", i)
	}
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	s.finish()
	if got := out.String(); !strings.HasPrefix(got, "slow: 27 s TestSlower\nslow: 10 s Test0\n") || strings.Count(got, "slow:") != slowTests {
		t.Error(got)
	}
}
