package view

import (
	"unicode"
	"unicode/utf8"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// prompt is a line that is being typed: what to search for.
type prompt struct {
	text   string
	before string // what was searched for before
}

// maxTyped bounds what is typed, in bytes; the server takes as much.
const maxTyped = 1000

// startPrompt asks for what to search: functions, or names of processes where those are listed.
func (m *Model) startPrompt() {
	if len(m.stack) > 0 {
		m.note = "lists can be searched; Escape goes back to one"
		return
	}
	m.overlay = promptOverlay
	m.prompt = prompt{text: *m.searched(), before: *m.searched()}
}

// searched is where the text lands that is searched for.
func (m *Model) searched() *string {
	if m.view == processesView {
		return &m.processName
	}
	return &m.request.Search
}

// promptKey edits the line. The list follows while typing.
func (m *Model) promptKey(k Key) {
	p := &m.prompt
	switch k.Code {
	case Enter:
		m.overlay = noOverlay
	case Escape:
		m.overlay, p.text = noOverlay, p.before
	default:
		p.text = edit(p.text, k)
	}
	if *m.searched() != p.text {
		*m.searched() = p.text
		l := m.current()
		l.cursor, l.key = 0, ""
	}
}

// edit is what a line is after a key.
func edit(line string, k Key) string {
	switch k.Code {
	case Backspace:
		_, size := utf8.DecodeLastRuneInString(line)
		return line[:len(line)-size]
	case CtrlU:
		return ""
	case Rune:
		if unicode.IsPrint(k.Rune) && len(line) < maxTyped {
			return line + string(k.Rune)
		}
	}
	return line
}

// promptLine is the line with what is typed and what comes of it.
func (m *Model) promptLine() Line {
	l := Line{}
	l.add(Strong, "/")
	shown := text.Clean(m.prompt.text)
	l.add(Normal, text.CutHead(shown, max(m.width-34, 8)))
	l.add(Selected, " ")
	switch {
	case m.problem != nil && m.kind() == api.Rejected:
		l.add(Warn, "  "+m.sentence())
	case m.view == processesView:
		l.add(Dim, "  part of a name; Enter, Escape")
	default:
		l.add(Dim, "  part of a name or /re/; Enter, Escape")
	}
	return l
}
