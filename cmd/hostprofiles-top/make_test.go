package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakeTop has make say what it would start, and starts that, with a program in its place that prints what it is given.
func TestMakeTop(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "build"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "build", "hostprofiles-top"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755))
	given := func(env []string, args ...string) string {
		env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
		dry := exec.Command("make", append([]string{"-s", "-n", "-C", "../..", "top"}, args...)...)
		dry.Env = env
		out, err := dry.Output()
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		start := exec.Command("sh", "-c", lines[len(lines)-1])
		start.Dir = dir
		start.Env = append(env, args...) // as make hands its variables on
		out, err = start.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Equal(t, "<>", given(nil))
	require.Equal(t, "<-url><127.0.0.1:4441>", given(nil, "FLAMEGRAPH_ENDPOINT=127.0.0.1:4441"))
	require.Equal(t, "<-url><127.0.0.1:4442>", given([]string{"FLAMEGRAPH_ENDPOINT=127.0.0.1:4442"}))
	require.Equal(t, "<-url><a b;false>", given(nil, "FLAMEGRAPH_ENDPOINT=a b;false"), "one word, whatever is in it")
	require.Equal(t, "<-window><5m>", given(nil, "ARGS=-window 5m"))
	got := given(nil, "FLAMEGRAPH_ENDPOINT=127.0.0.1:4441", "ARGS=-once -url http://other:1")
	require.Equal(t, "<-url><127.0.0.1:4441><-once><-url><http://other:1>", got)
	s, err := parse([]string{"-url", "127.0.0.1:4441", "-once", "-url", "http://other:1"}, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, "http://other:1", s.url, "what comes last wins")
}
