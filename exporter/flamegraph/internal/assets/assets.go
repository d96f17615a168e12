// Package assets holds the built page of the live flame graph and serves it. What is in dist is built from
// exporter/flamegraph/web by `make generate`; Go builds need no npm.
package assets

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dist
var dist embed.FS

// Handler serves index.html at / and the files that it names below /assets/. It answers 404 for every other path, so that
// it can be the last of a mux.
func Handler() (http.Handler, error) {
	root, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("open the embedded page: %w", err)
	}
	return newHandler(root)
}

type file struct {
	name        string
	body        []byte
	contentType string
	// cache is forever for a file whose name is a hash of what is in it, and a question each time for the page.
	cache string
}

type handler struct {
	files   map[string]file
	headers map[string]string
}

// kinds are the types of what a build makes. The machine's own table may say something else about .js.
func kind(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func newHandler(root fs.FS) (http.Handler, error) {
	h := &handler{files: map[string]file{}}
	// The headers are a file of the build, since the page's own tests serve it under the same policy.
	text, err := fs.ReadFile(root, "headers.json")
	if err != nil {
		return nil, fmt.Errorf("read the page's headers: %w", err)
	}
	if err := json.Unmarshal(text, &h.headers); err != nil {
		return nil, fmt.Errorf("parse the page's headers: %w", err)
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "headers.json" {
			return err
		}
		body, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f := file{name: name, body: body, contentType: kind(name), cache: "public, max-age=31536000, immutable"}
		url := "/" + name
		if name == "index.html" {
			url, f.cache = "/", "no-cache"
		}
		h.files[url] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded page: %w", err)
	}
	if _, ok := h.files["/"]; !ok {
		return nil, fmt.Errorf("read the embedded page: no index.html")
	}
	return h, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range h.headers {
		w.Header().Set(name, value)
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", f.contentType)
	w.Header().Set("Cache-Control", f.cache)
	if hash, ok := hashOf(f.name); ok {
		w.Header().Set("ETag", `"`+hash+`"`)
	}
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.body))
}

// hashOf is the hash in the name of a file of the build: page-0123456789ab.js.
func hashOf(name string) (string, bool) {
	stem := strings.TrimSuffix(path.Base(name), path.Ext(name))
	_, hash, ok := strings.Cut(stem, "-")
	return hash, ok
}
