package dashboard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	// pollEvery is how often a browser asks while snapshots are fast, and how old shared data may be.
	pollEvery = time.Second
	// pollMost is the longest time between two polls.
	pollMost = 10 * time.Second
	// idleEvery is how often a source is sampled when nobody looks, and lookFor how long somebody counts as
	// looking after a request.
	idleEvery = 30 * time.Second
	lookFor   = 30 * time.Second
	// scanFor is how long the scan for names goes on after a request for a snapshot.
	scanFor = 5 * time.Second
)

// answerTime is how long a snapshot waits for the back end. Tests on a busy machine make it longer.
var answerTime = 2 * time.Second

// A source is a Source with what the handler remembers of it.
type source struct {
	Source

	names   *names // nil without a Client
	history *history
	denials denials
	panels  panels
	blooms  bloomStates
	run     func(f func()) bool // starts a goroutine of the handler; false: it is closed
	looked  atomic.Int64        // when somebody looked last, in ns since 1970

	mu      sync.Mutex
	polling chan struct{} // closed when the poll under way ends; nil: none is
	data    polled
}

// polled is what the last poll of a source has read.
type polled struct {
	info info      // of the back end; kept when it does not answer
	at   time.Time // of info
	err  error     // of the last poll
	done time.Time // the last poll

	refused string // why the server refuses to scan for names
}

func newSource(s Source, run func(f func()) bool) *source {
	n := &source{Source: s, history: newHistory(), run: run}
	if s.Client != nil {
		n.names = newNames(s.Client)
	}
	return n
}

// poll reads INFO, and scans on for names if somebody has just looked. It does so at most once a second,
// whatever the number of callers: the others get the same data. A caller waits for a poll until ctx ends.
func (s *source) poll(ctx context.Context) polled {
	s.mu.Lock()
	if time.Since(s.data.done) < pollEvery*9/10 {
		defer s.mu.Unlock()
		return s.data
	}
	wait := s.polling
	if wait == nil {
		wait = make(chan struct{})
		// The poll outlives the request that began it: others wait for it too.
		if !s.run(func() { s.ask(wait) }) {
			defer s.mu.Unlock()
			return s.data
		}
		s.polling = wait
	}
	s.mu.Unlock()
	select {
	case <-wait:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

func (s *source) ask(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime*9/10)
	defer cancel()
	var i info
	var err error
	refused := ""
	if s.Client != nil {
		if i, err = readInfo(ctx, s.Client); isRefused(err) {
			i, err = info{}, nil // the server is up
		}
		if err == nil && time.Since(time.Unix(0, s.looked.Load())) < scanFor {
			if err = s.names.advance(ctx); isRefused(err) {
				refused, err = err.Error(), nil
			}
		}
	}
	now := time.Now()
	gauges, counters := s.metrics(i)
	if s.Limits != nil {
		l := s.Limits()
		counters["allowed"], counters["denied"] = float64(l.Allowed), float64(l.Denied)
		s.denials.add(now, l)
	}
	s.history.add(now, gauges, counters)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.err, s.data.done, s.data.refused = err, now, refused
	if err == nil {
		s.data.info, s.data.at = i, now
	}
	s.polling = nil
	close(ended)
}

// isRefused reports whether err is a server's answer.
func isRefused(err error) bool {
	_, answered := errors.AsType[redoubt.ServerError](err)
	return answered
}

// metrics returns what the history keeps.
func (s *source) metrics(i info) (gauges, counters map[string]float64) {
	gauges, counters = map[string]float64{}, map[string]float64{}
	counter := func(name, field string) {
		if _, ok := i[field]; ok {
			counters[name] = float64(i.int(field))
		}
	}
	counter("commands", "total_commands_processed")
	counter("hits", "keyspace_hits")
	counter("misses", "keyspace_misses")
	counter("expired", "expired_keys")
	counter("evicted", "evicted_keys")
	if i != nil {
		gauges["clients"] = float64(i.int("connected_clients"))
		gauges["memory"] = float64(i.int("used_memory"))
		gauges["keys"] = float64(i.int("keys"))
	}
	if s.Counts != nil {
		c := s.Counts()
		gauges["clients"] = float64(c.Clients)
		counters["commands"], counters["errors"] = float64(c.Commands), float64(c.Errors)
		counters["bytesIn"], counters["bytesOut"] = float64(c.BytesIn), float64(c.BytesOut)
	}
	if s.Caches != nil {
		var sum CacheCounts
		for _, c := range s.Caches() {
			sum.Hits, sum.Stale, sum.Loads, sum.Errors = sum.Hits+c.Hits, sum.Stale+c.Stale, sum.Loads+c.Loads, sum.Errors+c.Errors
		}
		counters["cacheHits"], counters["cacheStale"] = float64(sum.Hits), float64(sum.Stale)
		counters["cacheLoads"], counters["cacheErrors"] = float64(sum.Loads), float64(sum.Errors)
	}
	return gauges, counters
}

// noteViewer tells the sampling that somebody looks.
func (h *Handler) noteViewer() {
	select {
	case h.viewer <- struct{}{}:
	default:
	}
}

// sample keeps the history of all sources: a sample a second while somebody looks, and one in thirty
// seconds while nobody does.
func (h *Handler) sample() {
	seen := time.Time{}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-h.viewer:
			idle := time.Since(seen) >= lookFor
			seen = time.Now()
			if idle {
				next.Reset(pollEvery)
			}
			continue
		case <-next.C:
		}
		var wg sync.WaitGroup
		for _, s := range h.current() {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), answerTime)
				defer cancel()
				s.poll(ctx)
			})
		}
		wg.Wait()
		if time.Since(seen) < lookFor {
			next.Reset(pollEvery)
		} else {
			next.Reset(idleEvery)
		}
	}
}
