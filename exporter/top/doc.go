// Package top is an exporter that prints which functions of which processes used the most CPU, every few seconds: a live
// view of a profiles pipeline that needs no backend.
package top

//go:generate go tool -modfile=../../internal/tools/go.mod mdatagen metadata.yaml
