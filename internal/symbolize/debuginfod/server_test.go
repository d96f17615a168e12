package debuginfod

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testID is the n-th build id of the tests.
func testID(n int) string { return fmt.Sprintf("%040x", uint64(n)+0xabcdef0000000000) }

// testFile is an ELF file with a build id and so many bytes, which do not compress, in .debug_info.
func testFile(t testing.TB, id string, size int) []byte {
	t.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	note := append(le.AppendUint32([]byte{4, 0, 0, 0}, uint32(len(raw))), "\x03\x00\x00\x00GNU\x00"...)
	note = append(note, raw...)
	info := make([]byte, size)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range info {
		info[i] = byte(r.Uint32())
	}
	names := []byte("\x00.note.gnu.build-id\x00.debug_info\x00.shstrtab\x00")
	out := make([]byte, 64)
	copy(out, elf.ELFMAG+"\x02\x01\x01")
	headers := make([]byte, 64)
	for _, s := range []struct {
		name uint32
		typ  elf.SectionType
		data []byte
	}{{1, elf.SHT_NOTE, note}, {20, elf.SHT_PROGBITS, info}, {32, elf.SHT_STRTAB, names}} {
		headers = le.AppendUint32(le.AppendUint32(headers, s.name), uint32(s.typ))
		headers = append(headers, make([]byte, 16)...)
		headers = le.AppendUint64(le.AppendUint64(headers, uint64(len(out))), uint64(len(s.data)))
		headers = append(headers, make([]byte, 24)...)
		out = append(out, s.data...)
	}
	le.PutUint16(out[16:], uint16(elf.ET_DYN))
	le.PutUint16(out[18:], uint16(elf.EM_X86_64))
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint16(out[58:], 64)
	le.PutUint16(out[60:], 4)
	le.PutUint16(out[62:], 3)
	return append(out, headers...)
}

// testServer serves files by build id, or whatever else is wanted of it.
type testServer struct {
	*httptest.Server
	requests atomic.Int64

	mu     sync.Mutex
	files  map[string][]byte
	answer http.HandlerFunc // instead of the files
}

func newServer(t testing.TB) *testServer {
	s := &testServer{files: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *testServer) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.mu.Lock()
	answer := s.answer
	var body []byte
	for id, b := range s.files {
		if r.URL.Path == "/buildid/"+id+"/debuginfo" {
			body = b
		}
	}
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case body == nil:
		http.NotFound(w, r)
	default:
		w.Header().Set("X-DEBUGINFOD-SIZE", fmt.Sprint(len(body)))
		_, _ = w.Write(body) // the client may have gone
	}
}

func (s *testServer) put(t testing.TB, n, size int) (id string, body []byte) {
	t.Helper()
	id = testID(n)
	body = testFile(t, id, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[id] = body
	return id, body
}

func (s *testServer) answers(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// client makes a Client for servers; o may have more.
func client(t testing.TB, o Options, servers ...*testServer) *Client {
	t.Helper()
	for _, s := range servers {
		o.URLs = append(o.URLs, s.URL)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		list, err := os.ReadDir(c.cache.dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range list {
			if bytes.HasPrefix([]byte(e.Name()), []byte(tempPrefix)) {
				t.Errorf("%s is left in the cache", e.Name())
			}
		}
		if c.cache.promised != 0 {
			t.Errorf("%d bytes of the cache are promised to nobody", c.cache.promised)
		}
	})
	return c
}

// content gets a file and reads it.
func content(t testing.TB, c *Client, id string) ([]byte, error) {
	t.Helper()
	f, err := c.Debuginfo(context.Background(), id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	return b, nil
}

// wantContent gets a file that has to be there.
func wantContent(t testing.TB, c *Client, id string, want []byte) {
	t.Helper()
	if got, err := content(t, c, id); err != nil || !bytes.Equal(got, want) {
		t.Errorf("build id %s: %d bytes, not %d; %v", id, len(got), len(want), err)
	}
}
