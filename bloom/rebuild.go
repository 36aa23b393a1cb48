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

// RebuildOptions configure [Filter.Rebuild] and [Filter.Grow]. The zero value is ready to use.
type RebuildOptions struct {
	// Progress is called now and then from the goroutine that called Rebuild, and at the end: for a
	// progress bar. It should return soon. Optional.
	Progress func(Progress)
}

// Progress says how far a rebuild is.
type Progress struct {
	// Items is how many items the iterator has given.
	Items int64
	// Elapsed is the time since the rebuild began.
	Elapsed time.Duration
	// Done says that the new generation is in use.
	Done bool
}

const (
	// aliveFor is how long a rebuild counts as under way after its process was last heard of. The
	// process reports every third of it.
	aliveFor = time.Minute
	// rebuildBatch is how many items of the iterator are added at once.
	rebuildBatch = 2048
)

// Rebuild fills a new generation of the filter with items and replaces the old one by it, to remove
// items that are no longer wanted or to restore lost keys. Meanwhile all processes use the filter
// as before, and items that they add go to both generations. For a moment at the end the answers
// are "maybe".
//
// Rebuild iterates over items once every process that adds knows of the new generation. The
// iterator must give every item that was added before its first call, so read them inside the
// iterator from the place where they are stored. An error of the iterator ends the rebuild.
//
// When Rebuild fails or ctx ends, the new generation is deleted and the filter is as before. While
// another process rebuilds the filter the error matches [ErrRebuilding]; a process that was not
// heard of for a minute counts as dead, and Rebuild deletes the keys that it made.
func (f *Filter) Rebuild(ctx context.Context, items iter.Seq2[string, error], opts RebuildOptions) error {
	return f.rebuild(ctx, f.Spec(), items, opts)
}

// Grow is Rebuild with another Spec, which may also be smaller: a Bloom filter can't grow without
// its items. After that, opening the filter by the old Spec gives an error that matches
// [ErrMismatch]; a Filter that is open already keeps working.
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
			err = fmt.Errorf("%w: it has taken over", ErrRebuilding)
		}
	}
	if err != nil {
		return errors.Join(err, b.abort(ctx))
	}
	// From here on every process that reads the state completes the rebuild.
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

// soFar returns the progress.
func (b *builder) soFar() Progress {
	return Progress{Items: b.items, Elapsed: time.Since(b.began)}
}

// begin makes the keys of the new generation, announces it, and seals the shards of the old one
// against callers that do not know of it.
//
// The keys are made before they are announced, so no process adds an item to a key that does not
// exist yet. Until they are announced they have a TTL.
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
		return errors.Join(fmt.Errorf("%w: it has just finished", ErrRebuilding), b.clean(ctx))
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
			// PERSIST may have been sent twice.
			n, err = b.client.Do(ctx, redoubt.Cmd{Name: "EXISTS", Keys: []string{b.shard(b.next.id, i)}, Flags: redoubt.ReadOnly}).Int()
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("bloom: a key of the new generation of %q is lost", b.name)
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

// stayAlive reports now and then that the rebuild is under way, until ctx ends or another process
// takes over.
func (b *builder) stayAlive(ctx context.Context) error {
	tick := time.NewTicker(aliveFor / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// After an error the next tick tries again; at worst another process takes over.
			if alive, err := b.advance(ctx, "alive", b.id, aliveFor); err == nil && !alive {
				return fmt.Errorf("%w: it has taken over", ErrRebuilding)
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

// add adds items to the new generation. It may be repeated, because it does not ask which items are
// new.
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

// cleanTime bounds the clean-up after a failure.
const cleanTime = 10 * time.Second

// abort gives up the rebuild and deletes its keys. If the server can't be reached, the process that
// takes over deletes them. If another process has taken over, or all items are in, the keys are in
// use and stay.
func (b *builder) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanTime)
	defer cancel()
	if done, err := b.advance(ctx, "abort", b.id, 0); err != nil || !done {
		return err
	}
	return b.drop(ctx, b.next)
}

// clean deletes keys that were not announced.
func (b *builder) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanTime)
	defer cancel()
	return b.drop(ctx, b.next)
}
