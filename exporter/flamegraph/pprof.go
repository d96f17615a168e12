package flamegraph

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	"github.com/google/pprof/profile"

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
	addTime(most)
	hostFirst(most)
	q.attach("application/vnd.google.protobuf+gzip", "profile.pb.gz")
	_ = most.Write(q.w) // whoever asked may be gone
	return nil
}

// addTime puts CPU time beside the number of samples, as the profiles of Go programs have it, and has tools show that.
func addTime(p *profile.Profile) {
	if len(p.SampleType) != 1 || p.SampleType[0].Unit != "count" || p.PeriodType == nil || p.PeriodType.Unit != "nanoseconds" || p.Period <= 0 {
		return
	}
	p.SampleType = append(p.SampleType, &profile.ValueType{Type: p.PeriodType.Type, Unit: p.PeriodType.Unit})
	p.DefaultSampleType = p.PeriodType.Type
	for _, s := range p.Sample {
		n := s.Value[0]
		if n > math.MaxInt64/p.Period {
			n = math.MaxInt64 / p.Period
		}
		s.Value = append(s.Value, n*p.Period)
	}
}

// hostFirst keeps tools from calling a profile of many processes by the executable of one: the first mapping stands for the
// program.
func hostFirst(p *profile.Profile) {
	var one string
	for _, s := range p.Sample {
		for _, name := range s.Label[defaultGroup] {
			if one != "" && name != one {
				slices.SortStableFunc(p.Mapping, func(a, b *profile.Mapping) int { return cmp.Compare(kernelLast(b), kernelLast(a)) })
				return
			}
			one = name
		}
	}
}

func kernelLast(m *profile.Mapping) int {
	if m.File == "[kernel.kallsyms]" {
		return 1
	}
	return 0
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
