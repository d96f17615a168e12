// Package receiver is the hostprofiles receiver: a thin shell over an engine. It validates the configuration, hands what
// the engine delivers to the next consumer, and reports the engine's counters and health through the collector.
package receiver

//go:generate go tool -modfile=../internal/tools/go.mod mdatagen metadata.yaml
