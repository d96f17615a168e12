package fakeserver

// Epoch is when the samples of these servers end, Unix ms.
const Epoch = 1_700_000_000_000

// Normal is a server with a minute of three processes and a minute before it: web spends most in parse and in the kernel, db has
// been growing, and a batch job has a name of wide characters.
func Normal() *Server {
	native := func(name, file string, line int64) Frame {
		return Frame{Name: name, Type: "native", File: file, Line: line}
	}
	kernel := func(name string) Frame { return Frame{Name: name, Type: "kernel"} }
	main := native("main", "/src/web/main.c", 12)
	loop := native("event_loop", "/src/web/loop.c", 210)
	start := native("_start", "", 0)
	scan := native("std::vector<std::pair<std::string, long>, std::allocator<std::pair<std::string, long>>>::push_back(std::pair<std::string, long> const&)",
		"/usr/include/c++/12/bits/stl_vector.h", 1278)
	syscall := []Frame{start, main, loop, native("write", "", 0), kernel("entry_SYSCALL_64_after_hwframe"), kernel("do_syscall_64"), kernel("ksys_write")}
	return &Server{
		Now: Epoch + 3200, From: Epoch - 300_000, To: Epoch,
		Samples: []Sample{
			{"web", "101", "web", []Frame{start, main, loop, native("parse_request", "/src/web/parse.c", 88)}, 1500, 1480},
			{"web", "101", "web", syscall, 700, 690},
			{"web", "102", "worker-1", []Frame{start, main, loop, native("parse_request", "/src/web/parse.c", 88), native("tolower", "", 0)}, 300, 0},
			{"db", "200", "db-io", []Frame{start, native("serve", "/src/db/serve.cc", 4), scan}, 1100, 250},
			{"db", "200", "db-main", []Frame{start, native("serve", "/src/db/serve.cc", 4), {Name: "github.com/example/db/internal/store.(*Table).Scan", Type: "go", File: "/src/db/store/table.go", Line: 311}}, 400, 380},
			{"バッチ処理", "333", "main", []Frame{{Name: "計算する関数", Type: "cpython", File: "/srv/仕事/計算.py", Line: 7}}, 150, 200},
			{"kworker/0:1", "9", "kworker/0:1", []Frame{kernel("ret_from_fork"), kernel("worker_thread"), kernel("ksys_write")}, 50, 0},
			{"gone", "77", "gone", []Frame{start, native("old_loop", "/src/old.c", 1)}, 0, 900},
		},
		Receivers: []any{map[string]any{"name": "hostprofiles", "taken": 123456, "delivered": 123400, "lost": map[string]int{"ring_full": 56},
			"kernel_skipped": 12, "processes": 214, "executables": 97, "problem": ""}},
		Stops:      map[string]string{"333": "no_rule"},
		Incomplete: []any{map[string]any{"process": "バッチ処理", "pid": "333", "reason": "no_rule", "samples": 350, "of": 350}},
	}
}

// Hostile has names that a terminal would obey.
func Hostile() *Server {
	names := []string{
		"\x1b[2J\x1b[1;1Howned", "\x1b]0;title\x07", "\u009b31mred", "a\rb\nc\td", "\u202etxet\u202c", "e\u0301\u0301\u0301\u0301",
		"👩\u200d👩\u200d👧", "\U0001f1e9\U0001f1ea", "\x00\x7f\x08\x08", "\xff\xfe", "<script>alert(1)</script>", "関数\x1b[m名", "",
		"\x1bP+q544e\x1b\\", "\x9d0;x\x9c", "%s%n%d", "\x1b[?1049l",
	}
	s := &Server{Now: Epoch + 1000, From: Epoch - 300_000, To: Epoch}
	for i, name := range names {
		s.Samples = append(s.Samples, Sample{"proc" + name, name, "thread" + name,
			[]Frame{{Name: "root" + name, Type: "native", File: name, Line: 1}, {Name: name + "leaf", Type: "type" + name, File: name + "/file", Line: 2}}, int64(1000 - 10*i), int64(i)})
	}
	s.Receivers = []any{map[string]any{"name": names[0], "taken": 10, "lost": map[string]int{names[1]: 5}, "problem": names[2]}}
	s.Incomplete = []any{map[string]any{"process": names[0], "pid": names[1], "reason": names[13], "samples": 3, "of": 4}}
	return s
}

// Huge has more and longer of everything.
func Huge() *Server {
	s := &Server{Now: Epoch, From: Epoch - 300_000, To: Epoch}
	long := make([]byte, 30_000)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	for i := range 900 {
		var stack []Frame
		for depth := range 40 {
			stack = append(stack, Frame{Name: "f" + key(Frame{Name: string(rune('a' + (i*7+depth)%26)), Type: string(rune(i / 20))}), Type: "native"})
		}
		stack = append(stack, Frame{Name: "leaf" + key(Frame{Name: string(rune(i + 100))}) + string(long[:i]), Type: "native"})
		s.Samples = append(s.Samples, Sample{"process" + key(Frame{Name: string(rune(i%300 + 100))}), "1", "t", stack, 1 << 40, 1 << 39})
	}
	s.Samples[0].Stack[len(s.Samples[0].Stack)-1].Name = string(long)
	return s
}
