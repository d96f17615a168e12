package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/kernels/console"
)

const (
	// hashing is the argument with which this program makes the kernel hash for so long, which is all that it does.
	hashing = "hash"
	// hashModule is the module whose code that is, Whirlpool's: no kernel has a faster one.
	hashModule, hashName = "wp512", "wp512"
	// otherModule takes the place that hashModule had.
	otherModule = "rmd160"
	hashFor     = 2 * time.Second
	// moduleRest is the longest time between two readings of the kernel's symbols: engine.kernelReload, and a little more.
	moduleRest = 33 * time.Second
)

// round is one time that the module was loaded.
type round struct {
	pid     int
	address string // in /proc/modules
	err     error
}

// runModules loads the module, has it work at once, and does so again after another module has taken its place. It is unloaded
// before the samples are reported.
func runModules() (rounds []round) {
	for _, name := range []string{"af_alg", "algif_hash"} {
		if err := load(name); err != nil {
			return []round{{err: err}}
		}
	}
	for i := range 2 {
		if i > 0 {
			if err := load(otherModule); err != nil {
				return append(rounds, round{err: err})
			}
			time.Sleep(moduleRest) // then at the latest they are read for this
		}
		time.Sleep(moduleRest)
		r := runModule()
		rounds = append(rounds, r)
		if err := unload(); err != nil {
			return append(rounds, round{err: err})
		}
	}
	return rounds
}

func runModule() (r round) {
	if r.err = load(hashModule); r.err != nil {
		return r
	}
	if r.address, r.err = moduleAddress(); r.err != nil {
		return r
	}
	cmd := exec.Command("/proc/self/exe", hashing, hashFor.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.err = fmt.Errorf("hashing: %w: %s", err, out)
		return r
	}
	r.pid = cmd.Process.Pid
	return r
}

func load(name string) error {
	f, err := os.Open("/modules/" + name + ".ko")
	if err != nil {
		return fmt.Errorf("loading %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		return fmt.Errorf("loading %s: %w", name, err)
	}
	return nil
}

// unload removes the module as soon as nothing uses it any more.
func unload() error {
	var err error
	for range 50 {
		if err = unix.DeleteModule(hashModule, unix.O_NONBLOCK); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("unloading %s: %w", hashModule, err)
}

func moduleAddress() (string, error) {
	text, err := os.ReadFile("/proc/modules")
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", hashModule, err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 6 && f[0] == hashModule {
			return f[5], nil
		}
	}
	return "", errors.New(hashModule + " is not in /proc/modules")
}

// hash makes the kernel hash for so much CPU time; it returns the exit status.
func hash(howLong string) int {
	err := func() error {
		d, err := time.ParseDuration(howLong)
		if err != nil {
			return err
		}
		s, err := unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
		if err != nil {
			return fmt.Errorf("opening a socket: %w", err)
		}
		if err := unix.Bind(s, &unix.SockaddrALG{Type: "hash", Name: hashName}); err != nil {
			return fmt.Errorf("choosing %s: %w", hashName, err)
		}
		// Accept(2) of package unix wants an address, which such a socket has none of.
		fd, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(s), 0, 0, 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("beginning: %w", errno)
		}
		data := make([]byte, 16<<10)
		begin, err := cpuTime() // what it took to start may be as long, where CPUs are emulated
		if err != nil {
			return err
		}
		for {
			used, err := cpuTime()
			if err != nil || used-begin >= d {
				return err
			}
			if err := unix.Send(int(fd), data, unix.MSG_MORE); err != nil {
				return fmt.Errorf("hashing: %w", err)
			}
		}
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// judgeModules demands that the module's frames have names, whichever time it was loaded, and its build id.
func judgeModules(rounds []round, samples analysis.Samples) {
	var v verdict
	var detail []string
	for i, r := range rounds {
		if v.demand(r.err == nil, "round %d: %v", i, r.err); r.err != nil {
			continue
		}
		unknown := map[uint64]uint64{} // since when
		all, in, unnamed, without, strange, leaves := 0, 0, 0, 0, map[string]int{}, map[string]int{}
		for _, s := range samples.PID(r.pid) {
			all += s.Count
			inside := false
			for _, f := range s.Frames {
				switch {
				case f.Type != "kernel":
				case f.Mapping == "["+hashModule+"]":
					inside = true
					if f.BuildID == "" {
						without += s.Count
					}
					if !strings.HasPrefix(f.Name(), "wp") { // wp512_update, wp384_finup
						strange[f.Name()] += s.Count
					}
				case f.Name() == "":
					unnamed += s.Count
					if unknown[f.Address] == 0 || s.First < unknown[f.Address] {
						unknown[f.Address] = s.First
					}
				}
			}
			if inside {
				in += s.Count
			} else if len(s.Frames) > 0 {
				leaves[s.Frames[0].Type+" "+s.Frames[0].Name()] += s.Count
			}
		}
		// Those are the last of the modules before it: where it was loaded, they were the nearest names as long as its own were not known.
		for _, before := range []string{"kernel algif_hash_exit", "kernel rmd160_mod_fini"} {
			v.demand(leaves[before] == 0, "round %d: %d samples are taken for %s", i, leaves[before], before)
		}
		// What a name is found for matters here, not how much of its time the process hashes.
		v.demand(float64(in) > 0.3*hashFor.Seconds()*frequency, "round %d: %d samples are in the module, of %d", i, in, all)
		v.demand(unnamed == 0, "round %d: %d frames of the kernel have no name: %x", i, unnamed, unknown)
		v.demand(without == 0, "round %d: %d frames of the module have no build id", i, without)
		v.demand(len(strange) == 0, "round %d: the module's functions are %v", i, strange)
		maps.DeleteFunc(leaves, func(_ string, n int) bool { return n*20 < all })
		detail = append(detail, fmt.Sprintf("%s: %d of %d samples; others are in %v", r.address, in, all, leaves))
	}
	console.Print(os.Stdout, console.Check{Name: "modules", OK: len(v.wrong) == 0, Detail: strings.Join(append(v.wrong, detail...), "\n")})
}
