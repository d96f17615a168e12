package flamegraph

import "net/http"

// asksForPassword tells browsers to ask for a name and a password where a request was refused for want of them (RFC 7617): the
// authenticator of that name refuses without a word on how to be let in.
func asksForPassword(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&challenger{w}, r) })
}

type challenger struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (c *challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized && c.Header().Get("WWW-Authenticate") == "" {
		c.Header().Set("WWW-Authenticate", `Basic realm="hostprofiles", charset="UTF-8"`)
	}
	c.ResponseWriter.WriteHeader(status)
}
