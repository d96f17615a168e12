// Package store keeps the samples of OTLP profiles for a sliding window of time and under a byte budget, and answers what a
// live view asks of them.
//
// Words: a row is one observation, or an aggregate of many, of a series (everything that is known about a sample but its
// stack: resource, scope, attributes, link, profile type). Stacks share their callers' part: a node is a location and the
// node of its caller, so that a stack is the node of its innermost location. Tables only grow; what no row needs any more is
// left out when they are made anew. A Snapshot therefore stays valid, without a lock, as long as somebody holds it.
package store
