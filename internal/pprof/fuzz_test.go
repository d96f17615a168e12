package pprof

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// FuzzFromOTLP reads payloads from bytes: there is an error, or valid profiles that come back.
func FuzzFromOTLP(f *testing.F) {
	f.Add(marshal(f, readGolden(f)), true)
	f.Add([]byte(nil), false)
	for seed := range uint64(4) {
		f.Add(marshal(f, randomPayload(newWorld(f, seed))), seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, timestamps bool) {
		p, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(b)
		if err != nil {
			return
		}
		profiles, err := FromOTLP(p, FromOptions{Timestamps: timestamps})
		if err != nil {
			return
		}
		for _, v := range profiles {
			comesBack(t, throughFile(t, v))
		}
	})
}

// FuzzToOTLP reads profiles from bytes: there is an error, or a payload that keeps the rules and comes back.
func FuzzToOTLP(f *testing.F) {
	for seed := range uint64(4) {
		var b bytes.Buffer
		if err := randomPprof(newWorld(f, seed)).WriteUncompressed(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := profile.ParseUncompressed(b)
		if err != nil || p.CheckValid() != nil {
			return
		}
		comesBack(t, p)
	})
}

// FuzzRoundTrip makes both kinds of input from a seed.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1), false)
	f.Add(uint64(2), true)
	f.Fuzz(func(t *testing.T, seed uint64, odd bool) {
		w := newWorld(t, seed)
		w.odd = odd
		comesBack(t, randomPprof(w))
		p := randomPayload(w)
		if odd {
			w.mutate(p)
		}
		profiles, err := FromOTLP(p, FromOptions{Timestamps: true})
		if err != nil {
			return
		}
		if !odd {
			sameFacts(t, otlpFacts(true, back(t, profiles)...), otlpFacts(true, p))
		}
		for _, v := range profiles {
			comesBack(t, throughFile(t, v))
		}
	})
}

// FuzzValue reads the text of values: what is read is written as the same text, and read again as the same.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`null`, `{"$bytes":"AA=="}`, `{"$unit":"s","$value":1}`, `[1,1.0,"\u2028",{"$$x":true}]`, `{"$double":"-Inf"}`,
		`1e400`, `{"a":1,"a":2}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, unit, err := parseValue(text)
		if err != nil {
			return
		}
		written, err := valueJSON(v, unit)
		if err != nil {
			return
		}
		again, unitAgain, err := parseValue(written)
		if err != nil || unitAgain != unit || render(again) != render(v) {
			t.Fatalf("%s became %s, %v", written, render(again), err)
		}
		if twice, err := valueJSON(again, unit); err != nil || twice != written {
			t.Fatalf("%s, then %s, %v", written, twice, err)
		}
	})
}
