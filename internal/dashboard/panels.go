package dashboard

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// maxPanels bounds the pages that are kept of one source.
const maxPanels = 100

// A panelKey names a page of rows. Rights differ, so the pages of users are apart.
type panelKey struct {
	user string
	pageOfView
}

// panels keeps the rows that were read last of each page, for other browsers and for when the back end does
// not answer.
type panels struct {
	mu  sync.Mutex
	all map[panelKey]*panelState
}

// A panelState is the state of one page. Its turn is held while it is read.
type panelState struct {
	stale atomic.Bool // an action may have changed them

	turn sync.Mutex
	used time.Time // guarded by panels.mu
	panel
	done time.Time // when it was read last
}

// A panel is the rows of a page, and what went wrong.
type panel struct {
	rows []any
	next string
	at   time.Time // of the rows
	err  string
	down bool // err is that the back end does not answer
}

// errNoCommands is the error of views of a source without commands of Redoubt.
var errNoCommands = errors.New("this source has no commands of Redoubt: a pool needs hash_tag {}, and memcached has none")

// panel returns a page, which may be as old as the time between two polls. After an error it keeps the rows.
func (s *source) panel(key panelKey, read func() ([]any, string, error)) panel {
	st := s.panels.get(key)
	st.turn.Lock()
	defer st.turn.Unlock()
	if !st.stale.Swap(false) && time.Since(st.done) < pollEvery*9/10 {
		return st.panel
	}
	rows, next, err := read()
	st.done = time.Now()
	if err != nil {
		if _, refused := errors.AsType[*refusal](err); refused {
			st.panel = panel{} // the user may have lost the right to see the rows
		}
		st.err, st.down = err.Error(), isDown(err)
		return st.panel
	}
	st.panel = panel{rows: rows, next: next, at: st.done}
	return st.panel
}

// get returns the state of a page. It forgets the one that was unused for the longest time.
func (p *panels) get(key panelKey) *panelState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[panelKey]*panelState{}
	}
	st := p.all[key]
	if st == nil {
		if len(p.all) >= maxPanels {
			var oldest panelKey
			first := true
			for k, o := range p.all {
				if first || o.used.Before(p.all[oldest].used) {
					oldest, first = k, false
				}
			}
			delete(p.all, oldest)
		}
		st = &panelState{}
		p.all[key] = st
	}
	st.used = time.Now()
	return st
}

// expire makes the next snapshot read its rows anew.
func (p *panels) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.all {
		st.stale.Store(true)
	}
}

// isDown reports whether err says that the back end did not answer.
func isDown(err error) bool {
	if isRefused(err) {
		return false
	}
	for _, e := range []error{
		redoubt.ErrUnavailable, redoubt.ErrUnknownOutcome, redoubt.ErrClosed, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}
