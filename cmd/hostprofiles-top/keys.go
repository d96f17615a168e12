package main

import (
	"unicode"

	"github.com/gdamore/tcell/v2"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
)

// keysOf is what was pressed, as the model knows it; most keys it does not know.
func keysOf(e *tcell.EventKey) []view.Key {
	if e.Key() != tcell.KeyRune {
		if code, ok := codeOf(e.Key()); ok {
			return []view.Key{{Code: code}}
		}
		return nil
	}
	key := view.Key{Code: view.Rune, Rune: e.Rune()}
	if e.Modifiers()&tcell.ModCtrl != 0 { // as some terminals report control characters
		code, ok := codeOf(tcell.KeyCtrlA + tcell.Key(unicode.ToUpper(key.Rune)-'A'))
		if !ok {
			return nil
		}
		key = view.Key{Code: code}
	}
	if e.Modifiers()&tcell.ModAlt != 0 { // over a slow line Escape and another key come as one; nothing here needs Alt
		return []view.Key{{Code: view.Escape}, key}
	}
	return []view.Key{key}
}

func codeOf(k tcell.Key) (view.Code, bool) {
	code, ok := map[tcell.Key]view.Code{
		tcell.KeyUp: view.ArrowUp, tcell.KeyDown: view.ArrowDown, tcell.KeyLeft: view.ArrowLeft, tcell.KeyRight: view.ArrowRight,
		tcell.KeyPgUp: view.PageUp, tcell.KeyPgDn: view.PageDown, tcell.KeyHome: view.Home, tcell.KeyEnd: view.End,
		tcell.KeyEnter: view.Enter, tcell.KeyCtrlJ: view.Enter, tcell.KeyCtrlM: view.Enter, tcell.KeyEscape: view.Escape,
		tcell.KeyTab: view.Tab, tcell.KeyBacktab: view.Tab, tcell.KeyBackspace: view.Backspace, tcell.KeyBackspace2: view.Backspace,
		tcell.KeyCtrlH: view.Backspace, tcell.KeyCtrlC: view.CtrlC, tcell.KeyCtrlL: view.CtrlL, tcell.KeyCtrlU: view.CtrlU,
		tcell.KeyCtrlZ: view.CtrlZ, tcell.KeyCtrlD: view.PageDown, tcell.KeyCtrlP: view.ArrowUp, tcell.KeyCtrlN: view.ArrowDown,
	}[k]
	return code, ok
}
