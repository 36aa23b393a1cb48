package hll

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/hll"
)

const (
	// A pipeline sends about this many tallies or bytes.
	inPipeline    = 128
	pipelineBytes = 512 << 10

	// flushFor is how long a flush may take, in the background and in Close.
	flushFor = 10 * time.Second
)

// A flusher sends tallies. One flush runs at a time.
type flusher struct {
	kick chan struct{} // holds one token when a flush is wanted at once
	end  context.CancelFunc
	done chan struct{}

	turn    chan struct{} // holds one token while no flush runs; a flush takes it
	batch   int64         // the number of the last batch; the flush that runs owns it
	pending map[place]*sent
}

// A sent is a tally that is being sent. It does not change any more, and keeps the number of its
// batch until the server has answered. So it counts once, even if it arrives several times.
type sent struct {
	tally *tally
	batch int64
}

func (f *flusher) start(v *Visitors) {
	ctx, end := context.WithCancel(context.Background())
	*f = flusher{
		kick: make(chan struct{}, 1), end: end, done: make(chan struct{}),
		turn: make(chan struct{}, 1), pending: map[place]*sent{},
	}
	f.turn <- struct{}{}
	var both sync.WaitGroup
	both.Go(func() {
		turn := time.NewTimer(v.turn())
		defer turn.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-turn.C:
				turn.Reset(v.turn())
			}
		}
	})
	both.Go(func() {
		tick := time.NewTicker(v.opts.FlushEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-f.kick:
			}
			within, cancel := context.WithTimeout(ctx, flushFor)
			err := f.run(within, v)
			cancel()
			if err != nil && ctx.Err() == nil && v.opts.OnError != nil {
				v.opts.OnError(err)
			}
			if err != nil {
				// Wait for the next tick, even if there is still too much.
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		}
	})
	go func() { both.Wait(); close(f.done) }()
}

// soon makes a flush begin at once.
func (f *flusher) soon() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// stop ends the goroutines.
func (f *flusher) stop() {
	f.end()
	<-f.done
}

// run sends all tallies.
func (f *flusher) run(ctx context.Context, v *Visitors) error {
	select {
	case <-f.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { f.turn <- struct{}{} }()
	for {
		behind := f.gather(v)
		if err := f.sendAll(ctx, v); err != nil || !behind {
			return err
		}
	}
}

// sendAll sends the pending tallies.
func (f *flusher) sendAll(ctx context.Context, v *Visitors) error {
	var errs []error
	var places []place
	bytes := int64(0)
	leave := func() {
		errs = append(errs, f.send(ctx, v, places)...)
		places, bytes = places[:0], 0
	}
	for p, s := range f.pending {
		places = append(places, p)
		if bytes += p.bytes(s.tally); len(places) == inPipeline || bytes >= pipelineBytes {
			leave()
		}
	}
	leave()
	return errors.Join(errs...)
}

// gather moves the tallies of all stripes to pending. A place whose earlier tally is still pending
// keeps its new tally, because the server counts the batches of a place in their order; behind then
// says so.
func (f *flusher) gather(v *Visitors) (behind bool) {
	f.batch++
	for i := range v.stripes {
		st := &v.stripes[i]
		st.mu.Lock()
		open := st.take()
		for p := range f.pending {
			if t := open[p]; t != nil {
				st.put(p, t)
				delete(open, p)
				behind = true
			}
		}
		st.mu.Unlock()
		for p, t := range open {
			f.pending[p] = &sent{tally: t, batch: f.batch}
		}
	}
	return behind
}

// send sends the pending tallies of some places.
func (f *flusher) send(ctx context.Context, v *Visitors, places []place) (errs []error) {
	if len(places) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return []error{err}
	}
	cmds := make([]redoubt.Cmd, len(places))
	for i, p := range places {
		s := f.pending[p]
		form, data := s.tally.payload()
		keys := v.keys(p)
		cmds[i] = wire.MergeCmd([]string{keys.visitors, keys.views, keys.work}, append([]string{
			v.process, decimal(s.batch), decimal(s.tally.views), decimal(v.until(v.opts.Period.nth(p.period, v.opts.Location))), form,
		}, data...)...)
	}
	said := map[string]bool{}
	for i, r := range v.client.Pipeline(ctx, cmds) {
		p := places[i]
		if r.Err == nil || hopeless(r.Err) {
			v.bytes.Add(-p.bytes(f.pending[p].tally))
			delete(f.pending, p)
		}
		if r.Err != nil && !said[r.Err.Error()] {
			said[r.Err.Error()] = true
			errs = append(errs, r.Err)
		}
	}
	return errs
}

// hopeless reports whether sending again brings the same error every time.
func hopeless(err error) bool {
	return errors.Is(err, redoubt.ErrWrongType) || redoubt.IsCode(err, "INVALIDOBJ")
}

func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// pageKeys are the keys of a place.
type pageKeys struct{ visitors, views, work string }

func (v *Visitors) keys(p place) pageKeys {
	label := v.opts.Period.label(p.period)
	return pageKeys{
		visitors: v.key(p.page, "visitors:"+label),
		views:    v.key(p.page, "views:"+label),
		work:     v.key(p.page, "work"),
	}
}

func (v *Visitors) key(page, part string) string {
	key, err := v.client.Key(page, part)
	if err != nil {
		panic("hll: " + err.Error()) // open has checked the page
	}
	return key
}
