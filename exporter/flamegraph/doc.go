// Package flamegraph is an exporter that keeps the profiles of the last minutes in memory and serves a web page with their
// live flame graph, and an API with downloads for other tools. It takes profiles from any source and needs no backend.
package flamegraph

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml
