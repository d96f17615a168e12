package flamegraph

import (
	"fmt"
	"net/http"

	"github.com/hostprofiles/hostprofiles/internal/pprof"
)

// pprofDownload answers with a gzipped pprof profile. A selection has one type, and so one pprof profile, but for hosts that
// sample at another frequency: those with most samples are answered with.
func pprofDownload(q *request) error {
	p, err := q.export()
	if err != nil {
		return err
	}
	timestamps := q.choice("timestamps", "", "0", "1") == "1"
	if err := q.bad(); err != nil {
		return err
	}
	profiles, err := pprof.FromOTLP(p, pprof.FromOptions{Timestamps: timestamps})
	if err != nil {
		return &failure{http.StatusInternalServerError, fmt.Sprintf("the profiles cannot be written as pprof: %v", err)}
	}
	if len(profiles) == 0 {
		return errNoProfiles()
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
