package pprof

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

func ownTime() time.Time { return time.Unix(0, testTime).UTC() }

// checkConformance checks all rules but those that a pprof profile cannot keep however it is translated: what backends want
// of samples without timestamps, of their types and of their period, and what the conventions say of keys and values, which
// are those of the labels (a label may say that an attribute has no value).
func checkConformance(p pprofile.Profiles) error {
	err := conformance.Checker{AnyResource: true, MaxViolations: 1 << 20}.Check(p)
	if err == nil {
		return nil
	}
	var kept []error
	for _, line := range strings.Split(err.Error(), "\n") {
		switch {
		case strings.Contains(line, "an on-CPU sample needs timestamps"), strings.Contains(line, "on-CPU samples are"),
			strings.Contains(line, "off-CPU samples are"), strings.Contains(line, "values, but with a period of"),
			strings.Contains(line, ": attribute "), strings.Contains(line, "value is missing"):
		default:
			kept = append(kept, errors.New(line))
		}
	}
	return errors.Join(kept...)
}

// throughFile writes a profile and reads it again.
func throughFile(t *testing.T, p *profile.Profile) *profile.Profile {
	t.Helper()
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	out, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// marshal marshals a copy, so that p stays as it is.
func marshal(t testing.TB, p pprofile.Profiles) []byte {
	t.Helper()
	c := pprofile.NewProfiles()
	p.CopyTo(c)
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// back translates pprof profiles to payloads.
func back(t *testing.T, profiles []*profile.Profile) (all []pprofile.Profiles) {
	t.Helper()
	for i, p := range profiles {
		out, err := ToOTLP(throughFile(t, p), usual())
		if err != nil {
			t.Fatal(err)
		}
		if err := checkConformance(out); err != nil {
			t.Fatalf("profile %d: %v", i, err)
		}
		all = append(all, out)
	}
	return all
}

func TestPayloadsComeBack(t *testing.T) {
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := randomPayload(newWorld(t, seed))
			before := marshal(t, p)
			for _, timestamps := range []bool{true, false} {
				profiles, err := FromOTLP(p, FromOptions{Timestamps: timestamps})
				if err != nil {
					t.Fatal(err)
				}
				sameFacts(t, otlpFacts(timestamps, back(t, profiles)...), otlpFacts(timestamps, p))
			}
			if !bytes.Equal(marshal(t, p), before) {
				t.Error("the payload was changed")
			}
		})
	}
}

// comesBack translates a profile to OTLP and back, and again. It is false if the profile is beyond what ToOTLP takes.
func comesBack(t *testing.T, p *profile.Profile) bool {
	t.Helper()
	out, err := ToOTLP(p, usual())
	if err != nil {
		return false
	}
	if len(p.Sample) == 0 {
		if n := out.ResourceProfiles().Len(); n != 0 {
			t.Fatalf("%d resources without a sample", n)
		}
		return true
	}
	if err := checkConformance(out); err != nil {
		t.Fatal(err)
	}
	profiles, err := FromOTLP(out, FromOptions{Timestamps: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(profiles) != 1 {
		t.Fatalf("%d profiles", len(profiles))
	}
	if err := profiles[0].CheckValid(); err != nil {
		t.Fatal(err)
	}
	samePprof(t, profiles[0], p)
	again, err := ToOTLP(profiles[0], usual())
	if err != nil {
		t.Fatal(err)
	}
	sameFacts(t, otlpFacts(true, again), otlpFacts(true, out))
	return true
}

func TestProfilesComeBack(t *testing.T) {
	for seed := range uint64(500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := randomPprof(newWorld(t, seed))
			before := p.String()
			if !comesBack(t, p) {
				t.Fatal("it is not taken")
			}
			if p.String() != before {
				t.Error("the profile was changed")
			}
		})
	}
}

// TestOddPayloads: what OTLP allows less strictly than this repository's rules comes back in normal form.
func TestOddPayloads(t *testing.T) {
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.odd = true
			profiles, err := FromOTLP(randomPayload(w), FromOptions{Timestamps: w.chance(2)})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range profiles {
				if !comesBack(t, throughFile(t, p)) {
					t.Error("it is not taken")
				}
			}
		})
	}
}
