package flamegraph

import (
	"fmt"
	"io"
	"net/http"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
	"github.com/hostprofiles/hostprofiles/internal/pprof"
)

// pprofDownload answers with a gzipped pprof profile. A selection has one type and is brought to one period, so it is one pprof
// profile, unless producers say different things of it: those with most samples are answered with then.
func pprofDownload(q *request) error {
	timestamps := q.choice("timestamps", "", "0", "1") == "1"
	p, err := q.export(store.Export{OnePeriod: true, NoTimes: !timestamps, EachTime: timestamps})
	if err != nil {
		return err
	}
	profiles, err := pprof.FromOTLP(p, pprof.FromOptions{Timestamps: timestamps})
	if err != nil {
		return &failure{http.StatusInternalServerError, fmt.Sprintf("the profiles cannot be written as pprof: %v", err)}
	}
	if len(profiles) == 0 {
		return &failure{http.StatusNotFound, "there are no samples in this selection"}
	}
	most := profiles[0]
	for _, p := range profiles[1:] {
		if len(p.Sample) > len(most.Sample) {
			most = p
		}
	}
	q.attach("application/vnd.google.protobuf+gzip", "profile.pb.gz")
	_ = most.Write(q.w) // whoever asked may be gone
	return nil
}

// maxSymbolz bounds what is read of a request for symbols, in bytes.
const maxSymbolz = 1 << 20

// symbolz answers `go tool pprof`, which asks where a profile came from for the names of addresses that have none in it, and
// gives up without an answer: all names that are known are in the profile.
func symbolz(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxSymbolz))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, "num_symbols: 0\n")
}
