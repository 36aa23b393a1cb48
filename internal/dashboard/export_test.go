package dashboard

import (
	"context"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// SetAnswerTime changes how long a snapshot waits for the back end.
func SetAnswerTime(d time.Duration) { answerTime = d }

// SetStepTime changes when an action in steps answers.
func SetStepTime(d time.Duration) { stepTime = d }

// The bounds of a poll.
const (
	PageRows      = pageRows
	PageRounds    = pageRounds
	BloomsPerPage = bloomsPerPage
)

// Again makes the next snapshot ask the back end, however young the data is.
func (h *Handler) Again() {
	for _, s := range h.current() {
		s.panels.expire()
		s.mu.Lock()
		s.data.done = time.Time{}
		s.mu.Unlock()
	}
}

// Classify returns the kind of a key with the prefix rd, and its name.
func Classify(key string) (kind, name string) {
	k, name, ok := classify("rd:{", key)
	if !ok {
		return "", ""
	}
	return countWords[k], name
}

// A History is a history for tests.
type History struct{ *history }

// NewHistory returns an empty history.
func NewHistory() History { return History{newHistory()} }

// Add adds a sample.
func (h History) Add(at time.Time, gauges, counters map[string]float64) { h.add(at, gauges, counters) }

// Series returns the values of one series.
func (h History) Series(of, name string) []float64 {
	if s := h.series(of)[name]; s != nil {
		return s.V
	}
	return nil
}

// Denials is a history of denials for tests.
type Denials struct{ denials }

// Add adds a sample of how often names were denied so far.
func (d *Denials) Add(at time.Time, denied map[string]uint64) {
	c := LimitCounts{Names: map[string]LimitCount{}}
	for name, n := range denied {
		c.Names[name] = LimitCount{Denied: n}
	}
	d.add(at, c)
}

// Totals returns the names of a range and how often they were denied, the one that was denied most first, and
// how many points they have.
func (d *Denials) Totals(of string) (list []string, points int) {
	for _, s := range d.series(of, func(limitName) bool { return true }) {
		list, points = append(list, s.Name+" "+strconv.FormatUint(s.Total, 10)), len(s.T)
	}
	return list, points
}

// Kept returns how many names all points have.
func (d *Denials) Kept() (n int) {
	for _, r := range d.rings {
		n += len(r.sum)
		for _, p := range r.points {
			n += len(p.n)
		}
	}
	return n
}

// BeforePoll makes f run before each poll begins.
func (h *Handler) BeforePoll(f func()) {
	for _, s := range h.current() {
		s.mu.Lock()
		run := s.run
		s.run = func(poll func()) bool {
			f()
			return run(poll)
		}
		s.mu.Unlock()
	}
}

// BloomsAreDue makes the next snapshots count the filters anew.
func (h *Handler) BloomsAreDue() {
	for _, s := range h.current() {
		s.blooms.mu.Lock()
		for name, st := range s.blooms.all {
			st.next = time.Unix(1, 0)
			s.blooms.all[name] = st
		}
		s.blooms.mu.Unlock()
	}
}

// ReadInfo reads INFO of all primaries.
func ReadInfo(ctx context.Context, client *redoubt.Client) (map[string]string, error) {
	return readInfo(ctx, client)
}
