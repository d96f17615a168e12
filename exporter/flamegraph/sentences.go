package flamegraph

import "net/http"

// sentences has mux say as the API does that there is nothing at a path, or not for a method.
func sentences(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" || pattern == "GET /" {
			w = &errorWriter{ResponseWriter: w, r: r}
		}
		mux.ServeHTTP(w, r)
	})
}

// errorWriter replaces the text of those answers.
type errorWriter struct {
	http.ResponseWriter
	r        *http.Request
	replaced bool
}

// Unwrap is for http.ResponseController.
func (w *errorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *errorWriter) WriteHeader(status int) {
	sentence := ""
	switch status {
	case http.StatusNotFound:
		sentence = "there is nothing here; docs/live-view.md has what there is"
	case http.StatusMethodNotAllowed:
		sentence = "this can only be asked for with " + w.Header().Get("Allow")
	default:
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.replaced = true
	writeError(w.ResponseWriter, w.r, status, sentence)
}

// Write implements http.ResponseWriter.
func (w *errorWriter) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}
