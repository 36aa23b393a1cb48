package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/redoubt-go/redoubt/internal/transfer"
)

// lineEvery is how often progress is printed without a terminal.
const lineEvery = 5 * time.Second

// A progress shows how far a command is: by a bar on a terminal, and elsewhere by a line now and then.
type progress struct {
	w    io.Writer // nil: print nothing
	bars bool
	verb string // like "importing"
	unit string // like "keys"
	bar  *progressbar.ProgressBar
	now  transfer.Progress // shown by the bar
	next time.Time
}

func newProgress(w io.Writer, quiet bool, verb string) *progress {
	if quiet {
		return &progress{}
	}
	bars := isTerminal(w)
	if bars && isPipe(os.Stdout) {
		return &progress{} // the reader of the pipe may be a pager on the same terminal
	}
	return &progress{w: w, bars: bars, verb: verb, unit: "keys", next: time.Now().Add(lineEvery)}
}

// update may be called often, by one goroutine.
func (p *progress) update(now transfer.Progress) {
	switch {
	case p.w == nil:
	case p.bars:
		p.draw(now)
	case !time.Now().Before(p.next):
		p.next = time.Now().Add(lineEvery)
		percent := 100 * now.Done / max(1, now.Total)
		if now.Checking {
			_, _ = fmt.Fprintf(p.w, "redoubt: checking: %d%%\n", percent)
		} else {
			_, _ = fmt.Fprintf(p.w, "redoubt: %s: %s of %s (%d%%)\n", p.verb, p.amount(now.Done), p.count(now.Total), percent)
		}
	}
}

func (p *progress) draw(now transfer.Progress) {
	if p.bar == nil || p.now.Checking != now.Checking {
		p.done()
		options := []progressbar.Option{
			progressbar.OptionSetWriter(lineWriter{p.w}), progressbar.OptionThrottle(100 * time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
		}
		if now.Checking {
			options = append(options, progressbar.OptionSetDescription("checking"))
		} else {
			options = append(options, progressbar.OptionSetDescription(p.verb),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(p.unit))
			if p.unit == "bytes" {
				options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
			}
		}
		p.bar = progressbar.NewOptions64(max(1, now.Total), options...)
	}
	if now.Total != p.now.Total {
		p.bar.ChangeMax64(max(1, now.Total))
	}
	p.now = now
	_ = p.bar.Set64(min(now.Done, max(1, now.Total))) // an error in drawing must not end the command
}

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// amount formats a number of the unit, without the unit's name if it has one in count.
func (p *progress) amount(n int64) string {
	if p.unit == "bytes" {
		return byteSize(n)
	}
	return strconv.FormatInt(n, 10)
}

func (p *progress) count(n int64) string {
	if p.unit == "bytes" {
		return byteSize(n)
	}
	return p.amount(n) + " " + p.unit
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// A lineWriter keeps each line that the bar draws within the width that the terminal has at that moment:
// a longer one would continue on the next line and stay there.
type lineWriter struct{ io.Writer }

func (w lineWriter) Write(b []byte) (int, error) {
	width := columns(w.Writer) - 1 // some terminals wrap when the last column is filled
	parts := strings.Split(string(b), "\r")
	for i, part := range parts {
		parts[i] = cut(part, width)
	}
	if _, err := io.WriteString(w.Writer, strings.Join(parts, "\r")); err != nil {
		return 0, err
	}
	return len(b), nil
}
