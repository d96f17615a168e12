package e2e

import (
	"fmt"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// php is a run of PHP. Calls of PHP functions are not on the native stack.
func php(t *testing.T, name, file string, options ...string) jitRun {
	t.Helper()
	unwindtest.Need(t, "php")
	command := []string{"php"}
	for _, o := range options {
		command = append(command, "-d", o)
	}
	return jitRun{name: name, command: append(command, source(t, file)), kind: "php", memory: anonymous}
}

// opcache are the options that have PHP compile, in one of its modes. debug says what it tells of that: 0x10 is a perf map, 0x20 a
// jitdump (ZEND_JIT_DEBUG_PERF and ZEND_JIT_DEBUG_PERF_DUMP in ext/opcache/jit/zend_jit.h, PHP 8.2).
func opcache(mode, debug string) []string {
	return []string{"opcache.enable_cli=1", "opcache.jit_buffer_size=32M", "opcache.jit=" + mode, "opcache.jit_debug=" + debug}
}

func TestPHP(t *testing.T) {
	needsFull(t)
	for _, mode := range []string{"tracing", "function"} {
		t.Run(mode, func(t *testing.T) {
			j := php(t, "php", "php/threeway.php", opcache(mode, "0")...)
			j.unnamed, j.complete = 0.9, 0.97
			runJIT(t, j)
		})
		for debug, what := range map[string]string{"0x10": "perf map", "0x20": "jitdump"} {
			t.Run(fmt.Sprint(mode, " with a ", what), func(t *testing.T) {
				j := php(t, "php with a "+what, "php/threeway.php", opcache(mode, debug)...)
				j.named, j.complete = 0.9, 0.97
				runJIT(t, j)
			})
		}
	}
}

// TestPCRE is the JIT compiler of regular expressions, which PHP uses. It tells nobody of its code.
func TestPCRE(t *testing.T) {
	needsFull(t)
	j := php(t, "pcre", "php/regex.php")
	j.unnamed, j.complete = 0.5, 0.97
	runJIT(t, j)
}
