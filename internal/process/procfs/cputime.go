package procfs

import (
	"fmt"
	"strconv"
	"strings"
)

// IdleTimes returns how long each CPU has not run, in clock ticks: idle, waiting for I/O, or taken away by the hypervisor
// (proc_stat(5)).
func (fs *FS) IdleTimes() (map[int]uint64, error) {
	b, err := readHead(fs.root+"/stat", 1<<20)
	if err != nil {
		return nil, fmt.Errorf("reading idle times: %w", err)
	}
	idle := map[int]uint64{}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, "cpu")
		if !ok {
			break // the CPUs come first
		}
		f := strings.Fields(rest)
		if len(f) < 9 || rest[0] == ' ' {
			continue
		}
		cpu, err1 := strconv.Atoi(f[0])
		idled, err2 := strconv.ParseUint(f[4], 10, 64)
		waited, err3 := strconv.ParseUint(f[5], 10, 64)
		stolen, err4 := strconv.ParseUint(f[8], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil && err4 == nil {
			idle[cpu] = idled + waited + stolen
		}
	}
	return idle, nil
}
