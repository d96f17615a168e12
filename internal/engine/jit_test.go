package engine

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestJITShares has a process that says so much that its time is used up: the others' is not, until that of all is.
func TestJITShares(t *testing.T) {
	e := &Engine{jit: newJitter(), said: newSaid()}
	noisy, other := newJITCode(nil), newJITCode(nil)
	e.said.spend(noisy, saidProcessCredit+saidLookTime)
	now, before := noisy.cpu.filled, e.said.cpu.left
	if noisy.cpu.some(now) || !other.cpu.some(now) || !e.said.cpu.some(now) {
		t.Errorf("left: %v, %v, %v", noisy.cpu.left, other.cpu.left, e.said.cpu.left)
	}
	e.jit.enqueue(noisy)
	e.startJITJobs(now, true)
	if len(e.jit.queue) != 1 || noisy.running {
		t.Error("it is looked at though its time is used up")
	}
	later := now.Add(time.Duration(float64(saidLookTime)/saidProcessShare) + time.Second)
	if !noisy.cpu.some(later) {
		t.Errorf("%v left after %v", noisy.cpu.left, later.Sub(now))
	}
	if e.said.cpu.some(later); e.said.cpu.left-saidLookTime <= before {
		t.Errorf("%v are left for all, %v before: what one process may take is all that there is", e.said.cpu.left, before)
	}
	for range 12 {
		e.said.spend(newJITCode(nil), saidProcessCredit)
	}
	if e.said.cpu.some(later) {
		t.Error("there is no end to the time that all may use")
	}
}

// endless is a file that takes a look's time to read a part of, and has always more.
type endless struct{ updates int }

func (u *endless) Update(io.ReaderAt, jitcode.FileID) (bool, error) {
	u.updates++
	for began := worker.ThreadCPU(unix.Gettid()); worker.ThreadCPU(unix.Gettid())-began < int64(saidLookTime); {
	}
	return true, nil
}

// TestJITLookEnds reads a file that never ends: one look ends when its time is used up.
func TestJITLookEnds(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	r, u := &jitReader{}, &endless{}
	func() {
		defer r.cpu.start()()
		err = r.update(context.Background(), f, u)
	}()
	if err != nil || u.updates != 1 {
		t.Errorf("%d parts were read: %v", u.updates, err)
	}
}

// saying is an engine without BPF, and a process that says what its code is.
type saying struct {
	*Engine
	st *processState
}

func newSaying() *saying {
	e := &Engine{cfg: testConfig(), log: zap.NewNop(), count: newStats(), jit: newJitter(), said: newSaid()}
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	return &saying{e, &processState{}}
}

// sample returns where an address lies now.
func (s *saying) sample(a unwind.Addr) profile.Location {
	return s.jitLocation(s.st, &process.MappedFile{}, a, profile.Location{Type: profile.FrameNative})
}

// says has the process name an address; "" is no name any more.
func (s *saying) says(a unwind.Addr, name string) {
	var n *jitName
	if name != "" {
		n = &jitName{symbol: profile.Symbol{Lines: []unwind.Line{{Function: unwind.Function{Name: name}}}}, kind: "v8js"}
	}
	s.jitFound(s.st.jit, 7, &jitResult{names: &jitNames{}, addresses: []unwind.Addr{a}, found: []*jitName{n}})
}

// named is what a report has at a location.
func (s *saying) named(l profile.Location) string {
	var lines []unwind.Line
	if l.Symbol != nil {
		lines = l.Symbol.Lines
	} else {
		lines = s.resolve(nil, &l)
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[0].Function.Name + " " + string(l.Type)
}

// TestJITCodeOfItsTime has three functions at one address, one after the other: each sample is of the one that was there.
func TestJITCodeOfItsTime(t *testing.T) {
	const a = 0x1000
	s := newSaying()
	before := s.sample(a)
	s.says(a, "one")
	one := s.sample(a)
	s.says(a, "one")
	if again := s.sample(a); again != one {
		t.Error("the same code has two locations")
	}
	s.says(a, "two")
	two := s.sample(a)
	if s.said.replaced != 0 {
		t.Errorf("%d bytes are counted twice", s.said.replaced)
	}
	s.says(a, "three")
	three := s.sample(a)
	if s.said.replaced == 0 {
		t.Error("a name that samples have is not counted")
	}
	check := func() {
		t.Helper()
		for want, l := range map[string]profile.Location{"one v8js": one, "two v8js": two, "three v8js": three} {
			if got := s.named(l); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	check()
	if got := s.named(before); got != "one v8js" {
		t.Errorf("sampled before its name was known: %q", got)
	}
	s.says(a, "")
	if got := s.named(s.sample(a)); got != "" {
		t.Errorf("without a name: %q", got)
	}
	check()
	s.st.jit.known.Purge()
	if check(); s.st.jit.lines != 0 {
		t.Errorf("%d bytes are left", s.st.jit.lines)
	}
}

// TestJITNamesTakenBack: what a process says and takes back counts as long as samples have it.
func TestJITNamesTakenBack(t *testing.T) {
	const a = 0x1000
	s := newSaying()
	s.sample(a)
	s.says(a, "one")
	l := s.sample(a)
	one := s.st.jit.lines
	s.says(a, "")
	if got := s.named(l); got != "one v8js" || s.said.replaced != one || s.st.jit.lines != 0 {
		t.Errorf("%q, %d bytes replaced of %d, %d left", got, s.said.replaced, one, s.st.jit.lines)
	}
	s.says(a, "one")
	s.sample(a)
	s.says(a, "two")
	s.says(a, "")
	if s.said.replaced != 2*one {
		t.Errorf("%d bytes, want %d", s.said.replaced, 2*one)
	}
}

// TestJITCodeOfLateSample: a sample may have waited while its process left the table; what is kept for it is not kept for ever.
func TestJITCodeOfLateSample(t *testing.T) {
	files := process.NewExecutables[*executable](process.ExecutablesOptions{})
	table := process.NewTable(files, process.Options{})
	s := newSaying()
	s.st.p = table.SampleArrived(7, 12, 5, 1)
	table.Shrink(0)
	if s.st.p.State() != process.Removed {
		t.Fatalf("the process is %v", s.st.p.State())
	}
	s.sample(0x1000)
	s.forgetGoneJIT(time.Now().Add(time.Hour))
	if s.said.bytes != 0 || len(s.jit.byMapping) != 0 {
		t.Errorf("%d bytes and %d mappings are kept for ever", s.said.bytes, len(s.jit.byMapping))
	}
}

// TestJITCodeOfTheDead: a report may be made long after a process is gone. What it said is kept until then, as far as there is memory.
func TestJITCodeOfTheDead(t *testing.T) {
	const a = 0x1000
	now := time.Now()
	s := newSaying()
	l := s.sample(a)
	s.says(a, "one")
	s.forgetJIT(s.st, now)
	if s.st.jit != nil || s.said.bytes == 0 {
		t.Errorf("%d bytes are counted", s.said.bytes)
	}
	s.forgetGoneJIT(now.Add(2 * s.cfg.ReportInterval))
	if got := s.named(l); got != "one v8js" {
		t.Errorf("%q in the report after its end", got)
	}
	s.forgetGoneJIT(now.Add(time.Hour))
	if s.said.bytes != 0 || len(s.jit.byMapping) != 0 || s.said.recent.Len() != 0 {
		t.Errorf("%d bytes, %d mappings and %d processes are kept for ever", s.said.bytes, len(s.jit.byMapping), s.said.recent.Len())
	}

	// It is still being looked at.
	l = s.sample(a)
	c := s.st.jit
	c.running = true
	s.forgetJIT(s.st, now)
	c.running, s.st.jit = false, c
	s.says(a, "late")
	if got := s.named(l); got != "late v8js" || c.names != nil {
		t.Errorf("%q was found after its end", got)
	}
	s.dropJIT(c)
	s.says(a, "too late")
	if s.said.bytes != 0 || s.said.recent.Len() != 0 {
		t.Errorf("%d bytes are kept", s.said.bytes)
	}

	// Those that said nothing are not kept, and of the others only as many as there is memory for.
	for i := range 3 * int(s.debugLimits.said) / jitStateBytes {
		s.st = &processState{}
		s.sample(a)
		if i%2 == 0 {
			s.says(a, "one")
		}
		s.forgetJIT(s.st, now)
	}
	if n, most := len(s.jit.byMapping), int(s.debugLimits.said)/jitStateBytes; n == 0 || n > most || s.said.bytes > int(s.debugLimits.said) {
		t.Errorf("%d processes of %d, %d bytes", n, most, s.said.bytes)
	}
}
