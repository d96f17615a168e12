package ebpf

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// busyLua is loops that LuaJIT compiles: arithmetic, calls, tables, strings and C functions, closures, coroutines, protected calls.
const busyLua = `
local ffi = require("ffi")
ffi.cdef[[ int abs(int x); ]]
local function sum(n) local s = 0; for i = 1, n do s = s + i % 7 * 3 end; return s end
local function fib(n) if n < 2 then return n end; return fib(n - 1) + fib(n - 2) end
local function fill(n) local t = {}; for i = 1, n do t[i] = (i * 7919) % n end; return t end
local function text(n) local t = {}; for i = 1, n do t[#t + 1] = ("%d:%s"):format(i, tostring(i * 2)) end; return #table.concat(t) end
local function calls(n) local s = 0; for i = 1, n do s = s + ffi.C.abs(-i) + math.floor(i / 3) end; return s end
local function sorted(n) local t = fill(n); table.sort(t, function(a, b) return a < b end); return t[1] end
local function yields(n) local s = 0; for v in coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) do s = s + v end; return s end
local function protected(n) local s = 0; for i = 1, n do local _, v = pcall(sum, 10); s = s + v end; return s end
local function round()
	return sum(1000000) + fib(22) + #fill(10000) + text(2000) + calls(200000) + sorted(2000) + yields(2000) + protected(2000)
end
local warm = os.clock() + 1
while os.clock() < warm do round() end
print("READY") io.stdout:flush()
while true do round() end
`

// startLua runs a script with LuaJIT until the test ends; it waits for a line of output.
func startLua(t *testing.T, script string) (pid int, path string) {
	t.Helper()
	path, err := exec.LookPath("luajit")
	if err != nil {
		t.Fatalf("%v: scripts/setup.sh installs it", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		t.Fatal(err)
	}
	return startAndWait(t, exec.Command(path, "-e", script)), path
}

// TestLuaJIT samples code that keeps no frame pointer and has no unwind information: no sample is lost, and 95 of 100 stacks reach
// the program's entry; the others say why they do not.
func TestLuaJIT(t *testing.T) {
	needsBPF(t)
	pid, path := startLua(t, busyLua)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		t.Run(name, func(t *testing.T) {
			k, cpu := sampling(t, v)
			publish(t, k, pid)
			mappings := mappedTables(t, k, pid)
			taken0, lost0 := k.Counts()
			var stops [unwind.StopReasons]int
			total, generated, rooted, guessed := 0, 0, 0, 0
			for end := time.Now().Add(30 * time.Second); total < 2000 && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
				readOf(t, k, pid, func(s *Sample) {
					total++
					stops[s.Stop]++
					frames := s.User(nil)
					if len(frames) == 0 {
						return
					}
					if m := find(mappings, frames[0].LookupAddr()); m != nil && m.NoTable {
						generated++
					}
					for _, f := range frames {
						if f.Flags&unwind.FrameGuessed != 0 {
							guessed++
							break
						}
					}
					last := frames[len(frames)-1].LookupAddr()
					m := find(mappings, last)
					if s.Stop == unwind.StopRoot && m != nil && uint64(m.FileAddr(last))-file.Entry < 64 {
						rooted++
					}
				})
			}
			cpu.Close()
			taken, lost := k.Counts()
			if lost != lost0 || taken == taken0 {
				t.Errorf("%d of %d samples lost", lost-lost0, taken-taken0)
			}
			reasons := map[string]int{}
			for i, n := range stops {
				if n > 0 {
					reasons[unwind.StopReason(i).String()] = n
				}
			}
			t.Logf("%d samples, %d with a leaf in generated code, %d with a guess, %d reach the entry; stops %v", total, generated, guessed, rooted, reasons)
			if total < 1000 || generated < total/3 || rooted*100 < total*95 {
				t.Errorf("of %d samples, %d of them in generated code, %d reach the entry", total, generated, rooted)
			}
		})
	}
}

// find is the mapping that holds an address.
func find(mappings []MappedTable, a unwind.Addr) *MappedTable {
	for i := range mappings {
		if mappings[i].Contains(a) {
			return &mappings[i]
		}
	}
	return nil
}
