package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

var named = regexp.MustCompile(`(?:src|href)="([^"]+)"`)

func TestThePageAndAllThatItNamesAreServed(t *testing.T) {
	page := get(t, http.MethodGet, "/")
	if page.Code != http.StatusOK || page.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("page: %d %q", page.Code, page.Header().Get("Content-Type"))
	}
	if got := page.Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("page: Cache-Control %q", got)
	}
	names := named.FindAllStringSubmatch(page.Body.String(), -1)
	types := map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
	if len(names) != len(types) {
		t.Fatalf("the page names %d files, want %d", len(names), len(types))
	}
	for _, m := range names {
		// Relative, so that the page works behind a prefix.
		if strings.HasPrefix(m[1], "/") {
			t.Errorf("%s is not relative", m[1])
		}
		w := get(t, http.MethodGet, "/"+m[1])
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", m[1], w.Code)
		}
		extension := m[1][strings.LastIndexByte(m[1], '.')+1:]
		if got := w.Header().Get("Content-Type"); got != types[extension] {
			t.Errorf("%s: Content-Type %q", m[1], got)
		}
		if got := w.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s: Cache-Control %q", m[1], got)
		}
		sum := sha256.Sum256(w.Body.Bytes())
		if !strings.Contains(m[1], hex.EncodeToString(sum[:])[:12]) {
			t.Errorf("%s is not named after what is in it", m[1])
		}
	}
}

func TestNothingInlineIsAllowedOrThere(t *testing.T) {
	w := get(t, http.MethodGet, "/")
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'",
		"require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q allows what is unsafe", policy)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Error("no nosniff")
	}
	if m := regexp.MustCompile(`<style|<script[^>]*>[^<]|\son\w+=|style=`).FindString(w.Body.String()); m != "" {
		t.Errorf("inline code in the page: %q", m)
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	for _, path := range []string{"/index.html/", "/headers.json", "/assets/", "/assets/../headers.json", "/favicon.ico", "//"} {
		if w := get(t, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get(t, http.MethodPost, "/"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
	if w := get(t, http.MethodHead, "/"); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestAKnownFileIsNotSentAgain(t *testing.T) {
	name := named.FindStringSubmatch(get(t, http.MethodGet, "/").Body.String())[1]
	tag := get(t, http.MethodGet, "/"+name).Header().Get("ETag")
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/"+name, nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestABrokenBuildIsAnError(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no headers":        {"index.html": {}},
		"broken headers":    {"index.html": {}, "headers.json": {Data: []byte("{")}},
		"no page":           {"headers.json": {Data: []byte("{}")}},
		"nothing was built": {},
	} {
		if _, err := newHandler(files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
