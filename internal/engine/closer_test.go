package engine

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
)

// fakeFile is closed by what it is told to do.
type fakeFile func()

func (f fakeFile) Close() error { f(); return nil }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// TestClosesHang closes thousands of files of a file system that never answers: one goroutine waits for it, the files of
// others are closed, no more are opened, and once it answers all are closed.
func TestClosesHang(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	c := newCloser(zap.New(core))
	c.patience = 20 * time.Millisecond
	fuse, disk := device{0, 50}, device{8, 1}
	answer := make(chan struct{})
	var closed, healthy, atOnce atomic.Int32
	before := runtime.NumGoroutine()
	for range 5000 {
		c.close(fuse, fakeFile(func() {
			if atOnce.Add(1) > 1 {
				t.Error("two files of a file system are closed at once")
			}
			<-answer
			atOnce.Add(-1)
			closed.Add(1)
		}))
		c.close(disk, fakeFile(func() { healthy.Add(1) }))
	}
	eventually(t, "the files of the other file system are closed", func() bool { return healthy.Load() == 5000 })
	if n := runtime.NumGoroutine() - before; n > 2 {
		t.Errorf("%d goroutines for two file systems", n)
	}
	eventually(t, "the file system is known to hang", func() bool { return c.hangs(fuse) })
	if c.hangs(disk) {
		t.Error("the other file system hangs, too")
	}
	for range 3 {
		if n := c.look(); n != 5000 {
			t.Errorf("%d files are not closed", n)
		}
	}
	began := time.Now()
	c.wait(time.Minute)
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("waited %v for what hangs", d)
	}
	close(answer)
	eventually(t, "all is closed", func() bool { return closed.Load() == 5000 && c.look() == 0 })
	if c.hangs(fuse) {
		t.Error("it still hangs")
	}
	if all := logs.All(); len(all) != 2 || all[0].ContextMap()["device"] != "0:50" || all[0].Level != zap.WarnLevel {
		t.Errorf("logged: %v", all)
	}
}

// TestManyFileSystemsHang has closes hang on more file systems than there may be goroutines.
func TestManyFileSystemsHang(t *testing.T) {
	c := newCloser(zap.NewNop())
	c.patience = time.Millisecond
	answer := make(chan struct{})
	var closed atomic.Int32
	before := runtime.NumGoroutine()
	const each = maxUnclosed + 2
	for i := range uint32(3 * maxClosers) {
		for range each {
			c.close(device{0, i}, fakeFile(func() { <-answer; closed.Add(1) }))
		}
	}
	if n := runtime.NumGoroutine() - before; n > maxClosers {
		t.Errorf("%d goroutines", n)
	}
	for i := range uint32(3 * maxClosers) {
		eventually(t, fmt.Sprintf("no more files of file system %d are opened", i), func() bool { return c.hangs(device{0, i}) })
	}
	if n := c.look(); n != 3*maxClosers*each {
		t.Errorf("%d files are not closed", n)
	}
	close(answer)
	eventually(t, "all is closed", func() bool { return closed.Load() == 3*maxClosers*each && c.look() == 0 })
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestHangingFilesAreNamed lets the files of one device hang: its further files fail, those of another are read, processes
// are looked at without delay, and the log names the device once.
func TestHangingFilesAreNamed(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	log := zap.New(core)
	j := newJobs(log, newCloser(log))
	j.files.pool = worker.New[jobKey, jobGroup, any](worker.Options{Workers: 4, Patience: 50 * time.Millisecond})
	hang := make(chan struct{})
	fileOn := func(minor uint32, name string) *process.File {
		return &process.File{ID: process.FileID{Major: 0, Minor: minor}, Path: name}
	}
	results := map[string]error{}
	submit := func(about subject, hangs bool) {
		j.submit(about, time.Minute, func(context.Context) (any, error) {
			if hangs {
				<-hang
			}
			return nil, nil
		}, func(_ any, err error) { results[about.what] = err })
	}
	for i := range uint64(40) {
		submit(aboutFile(i+1, fileOn(50, fmt.Sprint("/nfs/", i)), "symbols"), true)
	}
	submit(aboutProcess(1, "mappings"), false)
	submit(aboutOpening(100, fileOn(1, "/disk")), false)
	eventually(t, "what does not hang has results", func() bool { j.drain(); return len(results) >= 37+2 })
	submit(aboutOpening(101, fileOn(50, "/nfs/late")), true)
	for _, healthy := range []string{"mappings of process 1", "unwind table of /disk"} {
		if err, ok := results[healthy]; !ok || err != nil {
			t.Errorf("%s: %v", healthy, err)
		}
	}
	if err := results["unwind table of /nfs/late"]; err != worker.ErrGroupStuck {
		t.Errorf("a file of a device that hangs: %v", err)
	}
	close(hang)
	eventually(t, "all have results", func() bool { j.drain(); return len(results) == 43 })
	submit(aboutOpening(101, fileOn(50, "/nfs/late")), false)
	eventually(t, "it is read", func() bool { j.drain(); return results["unwind table of /nfs/late"] == nil })
	if all := logs.All(); len(all) != 2 || all[0].ContextMap()["device"] != "0:50" || all[0].Level != zap.WarnLevel || all[1].Level != zap.InfoLevel {
		t.Errorf("logged: %v", all)
	}
	j.close()
}

// TestPanicIsLogged has a job panic: the log says what it was for, and where.
func TestPanicIsLogged(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	log := zap.New(core)
	j := newJobs(log, newCloser(log))
	var got error
	j.submit(aboutProcess(7, "mappings"), time.Minute, func(context.Context) (any, error) { panic("oops") },
		func(_ any, err error) { got = err })
	eventually(t, "the job ends", func() bool { j.drain(); return j.idle() })
	j.close()
	if got == nil || logs.Len() != 1 {
		t.Fatalf("error %v, logged %v", got, logs.All())
	}
	entry := logs.All()[0].ContextMap()
	if entry["job"] != "mappings of process 7" || entry["panic"] != "oops" || !strings.Contains(entry["stack"].(string), "closer_test.go") {
		t.Errorf("logged %v", entry)
	}
}

// TestResultsAreClosed: what was opened and not taken when the engine ends is closed.
func TestResultsAreClosed(t *testing.T) {
	log := zaptest.NewLogger(t)
	c := newCloser(log)
	j := newJobs(log, c)
	var closed atomic.Int32
	for i := range uint64(3) {
		j.submit(aboutOpening(i+1, &process.File{}), time.Minute,
			func(context.Context) (any, error) { return fakeFile(func() { closed.Add(1) }), nil }, func(any, error) {})
	}
	eventually(t, "the jobs end", func() bool { return j.files.pool.Stats().Done == 3 })
	j.close()
	c.wait(10 * time.Second)
	if closed.Load() != 3 {
		t.Errorf("%d of 3 files were closed", closed.Load())
	}
}
