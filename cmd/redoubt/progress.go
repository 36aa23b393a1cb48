package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

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
	f, ok := w.(*os.File)
	bars := ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor
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
			_, _ = fmt.Fprintf(p.w, "redoubt: %s: %d of %d %s (%d%%)\n", p.verb, now.Done, now.Total, p.unit, percent)
		}
	}
}

func (p *progress) draw(now transfer.Progress) {
	if p.bar == nil || p.now.Checking != now.Checking {
		p.done()
		options := []progressbar.Option{
			progressbar.OptionSetWriter(p.w), progressbar.OptionThrottle(100 * time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
		}
		if now.Checking {
			options = append(options, progressbar.OptionSetDescription("checking"))
		} else {
			options = append(options, progressbar.OptionSetDescription(p.verb),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(p.unit))
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
