// Package view is what the terminal shows: a model that messages change, and lines of styled text made from it. It knows no
// terminal, no clock and no network.
package view

import "github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"

// Style is what a piece of text means; the terminal decides how that looks.
type Style int

// Styles.
const (
	Normal   Style = iota
	Dim            // less important
	Strong         // more important
	Heading        // heads of columns
	Selected       // the chosen row
	Warn           // something is wrong
	Up             // more than before
	Down           // less than before
	Kernel         // by runtime, as on the page
	Go
	Python
	JavaScript
	JVM
	OtherRuntime
)

// Span is a piece of a line.
type Span struct {
	Text  text.Safe
	Style Style
}

// Line is a line of the screen. Fill is the style of what is behind its text, up to the edge.
type Line struct {
	Spans []Span
	Fill  Style
}

func (l *Line) add(s Style, t text.Safe) { l.Spans = append(l.Spans, Span{t, s}) }

func (l *Line) width() int {
	n := 0
	for _, s := range l.Spans {
		n += text.Width(s.Text)
	}
	return n
}

// cut shortens a line to width columns.
func (l Line) cut(width int) Line {
	out := Line{Fill: l.Fill}
	for _, s := range l.Spans {
		if width <= 0 {
			break
		}
		s.Text = text.Cut(s.Text, width)
		width -= text.Width(s.Text)
		out.Spans = append(out.Spans, s)
	}
	return out
}

// both puts one line at the left and the other at the right, of which the right one stays whole.
func both(left, right Line, width int) Line {
	right = right.cut(width)
	room := width - right.width()
	left = left.cut(max(room-1, 0))
	left.add(left.Fill, text.Spaces(room-left.width()))
	left.Spans = append(left.Spans, right.Spans...)
	return left
}

// Text is the line without styles, as for tests and plain terminals.
func (l Line) Text() text.Safe {
	var out text.Safe
	for _, s := range l.Spans {
		out += s.Text
	}
	return out
}

func styledLine(s Style, t text.Safe) Line { return Line{Spans: []Span{{t, s}}} }

// runtimeStyle is the colour of a frame type.
func runtimeStyle(frameType text.Safe) Style {
	switch frameType {
	case "kernel":
		return Kernel
	case "native", "":
		return Normal
	case "go":
		return Go
	case "cpython":
		return Python
	case "v8js":
		return JavaScript
	case "jvm":
		return JVM
	}
	return OtherRuntime
}
