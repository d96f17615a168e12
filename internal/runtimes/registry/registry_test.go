package registry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestPlugins: every runtime with a step function of its own has one plug-in, and no plug-in is without one.
func TestPlugins(t *testing.T) {
	have := map[unwind.Runtime]int{}
	for _, p := range Plugins() {
		have[p.ID()]++
	}
	for _, e := range runtimes.All() {
		want := 0
		if e.Walked && e.ID.Words() > 1 {
			want = 1
		}
		require.Equal(t, want, have[e.ID], e.Name)
		delete(have, e.ID)
	}
	require.Empty(t, have)
}
