package main

import (
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
)

func TestKeys(t *testing.T) {
	code := func(c view.Code) []view.Key { return []view.Key{{Code: c}} }
	for _, c := range []struct {
		key  *tcell.EventKey
		want []view.Key
	}{
		{tcell.NewEventKey(tcell.KeyRune, 'j', 0), []view.Key{{Code: view.Rune, Rune: 'j'}}},
		{tcell.NewEventKey(tcell.KeyUp, 0, 0), code(view.ArrowUp)},
		{tcell.NewEventKey(tcell.KeyUp, 0, tcell.ModAlt), code(view.ArrowUp)},
		{tcell.NewEventKey(tcell.KeyRune, 'c', tcell.ModCtrl), code(view.CtrlC)},
		{tcell.NewEventKey(tcell.KeyRune, 'C', tcell.ModCtrl), code(view.CtrlC)},
		{tcell.NewEventKey(tcell.KeyRune, 'm', tcell.ModCtrl|tcell.ModAlt), []view.Key{{Code: view.Escape}, {Code: view.Enter}}},
		{tcell.NewEventKey(tcell.KeyRune, 'q', tcell.ModAlt), []view.Key{{Code: view.Escape}, {Code: view.Rune, Rune: 'q'}}},
		{tcell.NewEventKey(tcell.KeyRune, 'é', tcell.ModCtrl), nil},
		{tcell.NewEventKey(tcell.KeyRune, '[', tcell.ModCtrl), nil},
		{tcell.NewEventKey(tcell.KeyF5, 0, 0), nil},
		{tcell.NewEventKey(tcell.KeyBackspace, 0, 0), code(view.Backspace)},
		{tcell.NewEventKey(tcell.KeyBackspace2, 0, 0), code(view.Backspace)},
		{tcell.NewEventKey(tcell.KeyEnter, 0, 0), code(view.Enter)},
	} {
		require.Equal(t, c.want, keysOf(c.key), "%v", c.key.Name())
	}
}
