package analysis

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// Report says how well the samples of one process agree with the truth about its program. All numbers are events.
type Report struct {
	Program string
	Samples int
	// Covered are those with one of the truth's functions in their stack; ByFunction splits them.
	Covered    int
	ByFunction map[string]int
	// Chains are the covered ones whose stack is the truth's chain, from the thread's root to the function.
	Chains int
	// Complete are those whose stack ends at the thread's root, by what the profile says and by the outermost frame.
	Complete int
	// Gone are those of the complete ones that fell into exec or exit, where there is no user stack to be walked.
	Gone int
	// Kernel are those in kernel mode, KernelComplete those of them whose user stack is complete.
	Kernel, KernelComplete int
	// Nameable are the frames (not events) of distinct stacks in functions that have a symbol, Named those with the right
	// name.
	Nameable, Named int
	// Nameless are those in functions whose symbol was stripped, Placed those of them that say where the function begins.
	Nameless, Placed int
	// Stops counts stop reasons.
	Stops map[string]int
	// Wrong shows stacks with a wrong chain, incomplete ones, and wrong names, a few of each.
	Wrong []string
}

// Judge compares the samples of a process, all of them its own, with its program's truth.
func Judge(b workloads.Built, samples Samples) Report {
	j := judge{resolver: NewResolver(b), seen: map[*Frame]verdict{}, wrong: map[string]int{}}
	j.Program, j.ByFunction, j.Stops = b.Name, map[string]int{}, map[string]int{}
	for _, s := range samples {
		j.add(s)
	}
	for _, w := range sortedKeys(j.wrong) {
		j.Wrong = append(j.Wrong, fmt.Sprintf("%d x %s", j.wrong[w], w))
	}
	return j.Report
}

// ShareError is the largest difference between a function's share and what it should be.
func (r Report) ShareError(truth []workloads.Share) float64 {
	worst := 0.0
	for _, share := range truth {
		got := 0.0
		if r.Covered > 0 {
			got = float64(r.ByFunction[share.Function]) / float64(r.Covered)
		}
		worst = max(worst, got-share.Of, share.Of-got)
	}
	return worst
}

func (r Report) String() string {
	part := func(n, of int) string {
		if of == 0 {
			return "none"
		}
		return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
	}
	var shares []string
	for _, f := range sortedKeys(r.ByFunction) {
		shares = append(shares, f+" "+part(r.ByFunction[f], r.Covered))
	}
	return fmt.Sprintf("%s: %d samples, covered %s (%s), chains %s, complete %s (%d in exec or exit), kernel mode %d (complete %s), named %s of %d frames, placed %s of %d, stops %v",
		r.Program, r.Samples, part(r.Covered, r.Samples), strings.Join(shares, ", "), part(r.Chains, r.Covered),
		part(r.Complete, r.Samples), r.Gone, r.Kernel, part(r.KernelComplete, r.Kernel), part(r.Named, r.Nameable), r.Nameable, part(r.Placed, r.Nameless),
		r.Nameless, r.Stops)
}

const maxWrong = 6 // examples of each kind of mistake

type judge struct {
	Report
	resolver *Resolver
	seen     map[*Frame]verdict // by the stack's first frame: stacks are shared
	wrong    map[string]int
	examples [3]int
}

// verdict is what is known of a stack, whatever the sample.
type verdict struct {
	share  int // index in the truth, -1 for none
	chain  bool
	rooted bool
	gone   bool
}

func (j *judge) add(s Sample) {
	j.Samples += s.Count
	j.Stops[s.StopReason] += s.Count
	v := verdict{share: -1}
	if len(s.Frames) > 0 {
		var ok bool
		if v, ok = j.seen[&s.Frames[0]]; !ok {
			v = j.stack(s)
			j.seen[&s.Frames[0]] = v
		}
	}
	if v.share >= 0 {
		j.Covered += s.Count
		j.ByFunction[j.resolver.built.Truth[v.share].Function] += s.Count
		if v.chain {
			j.Chains += s.Count
		} else {
			j.example(0, "wrong chain: ", s)
		}
	}
	complete := s.StopReason == "" && (v.rooted || v.gone)
	if complete {
		j.Complete += s.Count
		if !v.rooted {
			j.Gone += s.Count
		}
	} else {
		j.example(1, "incomplete: ", s)
	}
	if s.Kernel() {
		j.Kernel += s.Count
		if complete {
			j.KernelComplete += s.Count
		}
	}
}

func (j *judge) stack(s Sample) verdict {
	user := s.User()
	v := verdict{share: -1, rooted: len(user) > 0 && j.root(user[len(user)-1]), gone: gone(s)}
	b := j.resolver.built
	for i, share := range b.Truth {
		if slices.ContainsFunc(user, func(f Frame) bool { return j.resolver.is(share.Function, f) }) {
			above := b.AboveChain
			if b.Exotic {
				above = len(user)
			}
			v.share, v.chain = i, j.resolver.chain(user, share.Chain, above)
			break
		}
	}
	for _, f := range user {
		j.name(f, s)
	}
	return v
}

// name checks the name of a frame whose function has a symbol in the file that is mapped.
func (j *judge) name(f Frame, s Sample) {
	names := j.resolver.Visible(f)
	if len(names) == 0 {
		j.place(f, s)
		return
	}
	j.Nameable++
	if len(f.Lines) > 0 {
		last := f.Lines[len(f.Lines)-1]
		// Go's symbol table tells the calling conventions of a function apart by a suffix, which is not part of its name.
		if slices.ContainsFunc(names, func(n string) bool {
			return n == last.Name || n == last.SystemName || strings.TrimSuffix(n, ".abi0") == last.Name
		}) {
			j.Named++
			return
		}
	}
	j.example(2, fmt.Sprintf("name %q instead of one of %v: ", f.Name(), names), s)
}

// place checks a frame that nobody can name.
func (j *judge) place(f Frame, s Sample) {
	if len(f.Lines) > 0 {
		return
	}
	placed, known := j.resolver.Placed(f)
	if !known {
		return
	}
	j.Nameless++
	if placed {
		j.Placed++
		return
	}
	j.example(2, fmt.Sprintf("function of %#x begins at %#x: ", f.Address, f.Function), s)
}

// root tells whether the outermost frame can be a thread's first, or a coroutine's of the program: one that is known as such, or one
// in a file that does not tell its functions' names.
func (j *judge) root(f Frame) bool {
	names := j.resolver.True(f)
	if len(names) == 0 && len(f.Lines) > 0 {
		names = []string{f.Name()}
	}
	return len(names) == 0 || slices.ContainsFunc(names, isRoot) ||
		slices.ContainsFunc(names, func(n string) bool { return slices.Contains(j.resolver.built.Roots, n) })
}

// gone tells whether the sample was taken where the kernel takes an address space away, or has taken it away.
func gone(s Sample) bool {
	for _, f := range s.Frames {
		if f.Type != "kernel" {
			return false
		}
		switch name, _, _ := strings.Cut(f.Name(), "."); name {
		case "do_exit", "do_group_exit", "begin_new_exec", "bprm_execve", "exec_binprm", "load_elf_binary", "exit_mmap":
			return true
		}
	}
	return false
}

// isRoot knows the first functions of threads.
func isRoot(name string) bool {
	switch strings.TrimSuffix(name, ".abi0") {
	case "_start", "_start_c", "clone", "__clone", "clone3", "__clone3", "start_thread", "start", "thread_start":
		return true
	case "libc_start_main_stage2": // musl's, which has no unwind information: main's caller
		return true
	case "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.clone", "_rt0_amd64_linux", "_rt0_arm64_linux":
		return true
	case "runtime.mcall", "runtime.morestack", "runtime.systemstack", "runtime.gogo":
		return true // the system stack's first function when it has let go of the goroutine that it came from
	}
	return strings.HasPrefix(name, "__libc_start_")
}

func (j *judge) example(kind int, what string, s Sample) {
	text := what + j.resolver.describe(s)
	if _, ok := j.wrong[text]; !ok {
		if j.examples[kind]++; j.examples[kind] > maxWrong {
			return
		}
	}
	j.wrong[text] += s.Count
}

// describe writes a stack root first.
func (r *Resolver) describe(s Sample) string {
	var b strings.Builder
	if s.StopReason != "" {
		fmt.Fprintf(&b, "[%s] ", s.StopReason)
	}
	for i := len(s.Frames) - 1; i >= 0; i-- {
		f := s.Frames[i]
		name := f.Name()
		if names := r.True(f); len(names) > 0 {
			name = names[0]
		}
		if name == "" {
			name = fmt.Sprintf("%s+%#x", f.Mapping, f.Address)
		}
		if f.Guessed {
			name += "?"
		}
		if shown := len(s.Frames) - 1 - i; shown == 20 && i > 8 {
			fmt.Fprintf(&b, "... %d frames ... ", i-8)
			i = 8
			continue
		}
		b.WriteString(name + " ")
	}
	return strings.TrimSpace(b.String())
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
