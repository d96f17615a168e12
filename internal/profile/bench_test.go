package profile

import (
	"testing"
	"time"
)

// benchSamples are 100,000 samples of 10,000 stacks, some 30 frames deep, in 50 processes that share code: a call tree in
// which the callers repeat and the leaves vary.
func benchSamples() []*Sample {
	w := newWorld(1, 50, 0, 0)
	pool := make([]Location, 20_000)
	for i := range pool {
		pool[i] = Location{Type: FrameNative, Mapping: w.mappings[i%10], Address: uint64(0x1000 + 16*i)}
	}
	stacks := make([][]Location, 10_000)
	for i := range stacks {
		stack := make([]Location, 20+w.rnd.IntN(20))
		for depth := range stack {
			width := min(len(pool), 2<<(depth/2)) // functions at this depth
			stack[len(stack)-1-depth] = pool[(depth*577+w.rnd.IntN(width))%len(pool)]
		}
		stacks[i] = stack
	}
	samples := make([]*Sample, 100_000)
	for i := range samples {
		stack := w.rnd.IntN(len(stacks))
		samples[i] = &Sample{
			Resource: w.resources[stack%len(w.resources)], ThreadName: "worker", Stack: stacks[stack],
			Time: uint64(t0.UnixNano()) + uint64(i)*50_000,
		}
	}
	return samples
}

func BenchmarkAdd(b *testing.B) {
	samples := benchSamples()
	builder := New(Options{})
	for _, s := range samples {
		builder.Add(onCPU(), s)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1_000_000 == 999_999 { // keep memory bounded
			b.StopTimer()
			builder.Flush(nil, t0, t0)
			for _, s := range samples {
				builder.Add(onCPU(), s)
			}
			b.StartTimer()
		}
		builder.Add(onCPU(), samples[i%len(samples)])
	}
}

// BenchmarkFlush flushes 100,000 samples of 10,000 stacks of 30 frames on average.
func BenchmarkFlush(b *testing.B) {
	samples := benchSamples()
	builder := New(Options{})
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, s := range samples {
			builder.Add(onCPU(), s)
		}
		b.StartTimer()
		if payloads, lost := builder.Flush(resolve, t0, t0.Add(5*time.Second)); lost > 0 || len(payloads) == 0 {
			b.Fatal(lost)
		}
	}
}
