package bloom

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// RebuildOptions are for [Filter.Rebuild] and [Filter.Grow]. The zero value is
// ready to use.
type RebuildOptions struct {
	// Progress, if not nil, is called now and then from the goroutine that called
	// Rebuild, and at the end: for a progress bar. It should return soon.
	Progress func(Progress)
}

// Progress is how far a rebuild is.
type Progress struct {
	// Items is how many the iterator has given.
	Items int64
	// Elapsed is the time since the rebuild began.
	Elapsed time.Duration
	// Done says that the new generation is in use.
	Done bool
}

const (
	// aliveFor is how long a rebuild counts as under way without a word from who
	// does it; each third of it he gives one.
	aliveFor = time.Minute
	// rebuildBatch is how many items of the iterator are added at once.
	rebuildBatch = 2048
)

// Rebuild fills a new generation of the filter with items and then puts it in the
// place of the old one: to get rid of items that are no longer wanted, and to bring
// lost keys back. Meanwhile the filter is used as before, by all processes; items
// that are added go to both generations. For a moment at the end the answers are
// "maybe".
//
// items is asked once everybody who adds knows of the new generation: it must give
// every item that was added before it is asked, so read it, in the function that it
// is, from where the items are kept. An error that it gives ends the rebuild.
//
// When Rebuild fails or ctx ends, the new generation is deleted, and the filter is
// as before. While another process rebuilds the filter the error matches
// [ErrRebuilding]; one that has not been heard of for a minute is taken to be dead,
// and what it made is deleted.
func (f *Filter) Rebuild(ctx context.Context, items iter.Seq2[string, error], opts RebuildOptions) error {
	return f.rebuild(ctx, f.Spec(), items, opts)
}

// Grow is Rebuild with another Spec, of a larger capacity or a smaller error rate,
// as it may be: a Bloom filter can't grow without its items. Who opens the filter by
// the old Spec afterwards gets an error that matches [ErrMismatch]; who has it open
// already goes on.
func (f *Filter) Grow(ctx context.Context, spec Spec, items iter.Seq2[string, error], opts RebuildOptions) error {
	if err := spec.check(); err != nil {
		return err
	}
	return f.rebuild(ctx, spec, items, opts)
}

func (f *Filter) rebuild(ctx context.Context, spec Spec, items iter.Seq2[string, error], opts RebuildOptions) (err error) {
	b := &builder{
		Filter: f, id: newID(), began: time.Now(), progress: opts.Progress,
		next: generation{id: newID(), spec: spec, layout: layoutFor(spec)},
	}
	if b.progress == nil {
		b.progress = func(Progress) {}
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	filling, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop(b.stayAlive(filling))
	}()
	err = b.fill(filling, items)
	if cause := context.Cause(filling); cause != nil && err != nil {
		err = cause
	}
	stop(nil)
	<-ended
	if err == nil {
		var done bool
		if done, err = f.advance(ctx, "filled", b.id, aliveFor); err == nil && !done {
			err = fmt.Errorf("%w: another has taken over", ErrRebuilding)
		}
	}
	if err != nil {
		return errors.Join(err, b.abort(ctx))
	}
	// From here on everybody who looks ends it.
	if _, err := f.refresh(ctx, nil); err != nil {
		return err
	}
	p := b.soFar()
	p.Done = true
	b.progress(p)
	return nil
}

// A builder fills a new generation.
type builder struct {
	*Filter

	id       string
	next     generation
	seal     int64
	items    int64
	began    time.Time
	progress func(Progress)
}

// soFar is how far it is.
func (b *builder) soFar() Progress {
	return Progress{Items: b.items, Elapsed: time.Since(b.began)}
}

// begin makes the keys of the new generation, tells of it, and seals those of the
// old one against all who have not heard.
//
// The keys are made before anybody knows of them, so that nobody adds an item to one
// that is not there yet; until they are told of they go by themselves.
func (b *builder) begin(ctx context.Context) error {
	s, err := b.refresh(ctx, nil)
	if err != nil {
		return err
	}
	if err := b.make(ctx, b.next, anyTime, makeTime); err != nil {
		return errors.Join(err, b.clean(ctx))
	}
	a, err := b.client.Do(ctx, wire.BeginCmd(b.filter, s.current.text(), b.next.text(), b.id, aliveFor)).Array()
	if err != nil {
		return errors.Join(err, b.abort(ctx))
	}
	if len(a) != 4 {
		return errors.Join(fmt.Errorf("bloom: reply of begin.lua has %d elements, want 4", len(a)), b.abort(ctx))
	}
	status, _ := a[0].(int64)
	b.seal, _ = a[1].(int64)
	switch status {
	case 0:
		return errors.Join(ErrRebuilding, b.clean(ctx))
	case -1:
		return errors.Join(fmt.Errorf("%w: it was just now", ErrRebuilding), b.clean(ctx))
	}
	if text, _ := a[3].(string); text != "" {
		if dead, err := parseGeneration(text); err == nil {
			if err := b.drop(ctx, dead); err != nil {
				return errors.Join(err, b.abort(ctx))
			}
		}
	}
	for i := range b.next.shards {
		n, err := b.client.Do(ctx, redoubt.Cmd{Name: "PERSIST", Keys: []string{b.shard(b.next.id, i)}, Flags: redoubt.Idempotent}).Int()
		if err == nil && n == 0 {
			// It may have been sent twice.
			n, err = b.client.Do(ctx, redoubt.Cmd{Name: "EXISTS", Keys: []string{b.shard(b.next.id, i)}, Flags: redoubt.ReadOnly}).Int()
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("bloom: a new key of %q is lost already", b.name)
		}
		if err != nil {
			return errors.Join(err, b.abort(ctx))
		}
	}
	cmds := make([]redoubt.Cmd, s.current.shards)
	for i := range cmds {
		cmds[i] = wire.SealCmd(b.shard(s.current.id, i), s.current.shardLen(), b.seal)
	}
	for _, r := range b.client.Pipeline(ctx, cmds) {
		if r.Err != nil {
			return errors.Join(r.Err, b.abort(ctx))
		}
	}
	return nil
}

// stayAlive tells every now and then that the rebuild is under way, until ctx ends
// or somebody else has taken it over.
func (b *builder) stayAlive(ctx context.Context) error {
	tick := time.NewTicker(aliveFor / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// An error passes, or the next one to look takes over.
			if alive, err := b.advance(ctx, "alive", b.id, aliveFor); err == nil && !alive {
				return fmt.Errorf("%w: another has taken over", ErrRebuilding)
			}
		}
	}
}

func (b *builder) fill(ctx context.Context, items iter.Seq2[string, error]) error {
	batch := make([]string, 0, rebuildBatch)
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if batch = append(batch, item); len(batch) == cap(batch) {
			if err := b.add(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
			b.progress(b.soFar())
		}
	}
	if err := b.add(ctx, batch); err != nil {
		return err
	}
	return ctx.Err()
}

// add adds items to the new generation. To repeat it does no harm, for nobody asks
// which are new.
func (b *builder) add(ctx context.Context, items []string) error {
	all := newBatch(b.keys, b.next, b.seal, items, each(len(items)))
	for i := range all.cmds {
		all.cmds[i].Flags = redoubt.Idempotent
	}
	if err := all.read(b.client.Pipeline(ctx, all.cmds)); err != nil {
		return err
	}
	for _, s := range all.status {
		if s != added {
			return fmt.Errorf("bloom: a key of the new generation of %q is lost", b.name)
		}
	}
	b.items += int64(len(items))
	return nil
}

// cleanTime bounds what is done after a failure.
const cleanTime = 10 * time.Second

// abort gives up. Where it can't, because the server is not there, whoever takes
// over deletes the keys; where it may not, because another has taken over or all
// items are in, they are his or in use.
func (b *builder) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanTime)
	defer cancel()
	if done, err := b.advance(ctx, "abort", b.id, 0); err != nil || !done {
		return err
	}
	return b.drop(ctx, b.next)
}

// clean deletes the keys that nobody was told of.
func (b *builder) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanTime)
	defer cancel()
	return b.drop(ctx, b.next)
}
