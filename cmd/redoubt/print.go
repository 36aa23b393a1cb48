package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// jsonFlag adds --json to cmd.
func jsonFlag(flags *pflag.FlagSet, asJSON *bool, usage string) {
	flags.BoolVar(asJSON, "json", false, usage)
	onThisLine(flags, "json")
}

// answer prints what a command did: a line of text, or a JSON object.
func answer(out io.Writer, asJSON bool, state any, text string) error {
	if asJSON {
		return printJSON(out, state)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// printable quotes text that would garble a table or a terminal.
func printable(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// printLine prints JSON on one line.
func printLine(out io.Writer, v any) error {
	line := json.NewEncoder(out)
	line.SetEscapeHTML(false)
	return line.Encode(v)
}

// short returns the beginning of a text, for a table.
func short(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	if s == "" {
		return "-"
	}
	return printable(s)
}

// rounded formats a time that is changing while the user reads it, by its two largest units: 850ms, 4.2s,
// 3m12s, 2h5m, 3d4h.
func rounded(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	two := func(big, small time.Duration, units string) string {
		d = d.Round(small)
		text := fmt.Sprintf("%d%c", d/big, units[0])
		if rest := d % big / small; rest > 0 {
			text += fmt.Sprintf("%d%c", rest, units[1])
		}
		return text
	}
	switch {
	case d < 0:
		return "-" + rounded(-ms)
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < 59950*time.Millisecond:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d.Round(time.Second) < time.Hour:
		return two(time.Minute, time.Second, "ms")
	case d.Round(time.Minute) < 24*time.Hour:
		return two(time.Hour, time.Minute, "hm")
	default:
		return two(24*time.Hour, time.Hour, "dh")
	}
}

// ago formats a time in the past. The clocks of the machines may differ.
func ago(at time.Time) string {
	d := time.Since(at)
	if d < time.Second {
		return "just now"
	}
	return rounded(d.Round(time.Second).Milliseconds()) + " ago"
}

// byteSize formats a number of bytes.
func byteSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size /= 1024; size < 999.5 {
			break
		}
	}
	if size < 9.95 {
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}

func keys(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return fmt.Sprintf("%d keys", n)
}

func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
