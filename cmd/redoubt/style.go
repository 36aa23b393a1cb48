package main

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/redoubt-go/redoubt/internal/settings"
)

// A style marks text for a terminal. The zero value marks nothing.
type style struct{ colour bool }

func (s style) mark(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.mark("1", text) }
func (s style) name(text string) string { return s.mark("36", text) }
func (s style) bad(text string) string  { return s.mark("1;31", text) }

// noColour adds --no-color.
func noColour(flags *pflag.FlagSet) {
	flags.Bool("no-color", false, "print no colors; so does NO_COLOR=1 in the environment")
}

// styleOf returns the style for w: colors on a terminal, unless the user doesn't want them. Help and errors
// use it before the settings are filled in.
func styleOf(cmd *cobra.Command, w io.Writer) style {
	if f := cmd.Root().PersistentFlags().Lookup("no-color"); f.Changed {
		no, _ := strconv.ParseBool(f.Value.String()) // pflag has checked it
		return style{colour: !no && isTerminal(w)}
	}
	no, _ := strconv.ParseBool(os.Getenv(settings.EnvName(envPrefix, "no-color"))) // fill refuses other texts
	return style{colour: !no && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor
}

// columns returns the width of the terminal w, or 80 for anything else.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 { //nolint:gosec // a file descriptor
			return width
		}
	}
	return 80
}

// wrap breaks text into lines of at most width columns. The words of a paragraph flow; a line that begins
// with a space stays as it is.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0 // columns of the line so far
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, " ") {
			if at > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line + "\n")
			at = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			w := uniseg.StringWidth(word)
			switch {
			case at == 0:
			case at+1+w > width:
				b.WriteByte('\n')
				at = 0
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += w
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// cut returns the beginning of text that fits into width columns.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	at := 0
	for g := uniseg.NewGraphemes(text); g.Next() && at+g.Width() < width; at += g.Width() {
		b.WriteString(g.Str())
	}
	if width > 0 {
		b.WriteString("…")
	}
	return b.String()
}
