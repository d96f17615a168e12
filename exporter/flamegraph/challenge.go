package flamegraph

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/collector/component"
)

// asksForPassword tells browsers to ask for a name and a password where a request was refused for want of them (RFC 7617): the
// authenticator of that name refuses without a word on how to be let in. Nobody is let in with an empty password.
func asksForPassword(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &challenger{w}
		if _, password, ok := r.BasicAuth(); ok && password == "" {
			writeError(c, r, http.StatusUnauthorized, "the password is empty")
			return
		}
		next.ServeHTTP(c, r)
	})
}

// hasPassword fails if the authenticator lets in who gives an empty name and an empty password: it was made from variables
// that are not set.
func hasPassword(ctx context.Context, id component.ID, extension component.Component) error {
	server, ok := extension.(interface {
		Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error)
	})
	if !ok {
		return nil // the server's own preparation says so
	}
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth("", "")
	if _, err := server.Authenticate(ctx, r.Header); err != nil {
		return nil // as it should be
	}
	return fmt.Errorf("%s lets in everybody, with an empty name and an empty password: set both (are the environment variables set from which it has them?)", id)
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
