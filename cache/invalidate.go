package cache

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// Set stores a value for key and replaces any other. Loads of the key that are running are not
// stored. Use it where you already have the value. If two Sets run at once, either may win,
// whichever write to the source was later: where that matters, call [Cache.Invalidate] after the
// commit.
//
// One round trip, and two more for tags. After an error that matches redoubt.ErrUnknownOutcome the
// value may be stored or not; Invalidate ends the doubt. After an error that matches [ErrTooLarge]
// nothing was stored.
func (c *Cache[K, V]) Set(ctx context.Context, key K, v V) error {
	p, err := c.place(key)
	if err != nil {
		return err
	}
	if c.isClosed() {
		return redoubt.ErrClosed
	}
	a := answer[V]{v, true}
	w, _, err := c.write(key, a)
	if err != nil {
		return err
	}
	defer c.forget(p.text)
	defer c.local.invalidate(p.text)
	tags := c.tagsOf(key, a)
	if err := c.addTags(ctx, p, tags, w.Keep); err != nil {
		return err
	}
	if err := c.client.Do(ctx, wire.SetCmd(p.keys(), w, c.channel, c.id+p.text)).Err; err != nil {
		return err
	}
	// Again, in case the tag was invalidated between the two.
	return c.addTags(ctx, p, tags, w.Keep)
}

// Invalidate deletes the entry of key in all processes. Loads of the key that are running are not
// stored, and later callers do not get their values. Call it after the write to the source is
// committed. After it has returned nil, a Get that begins later returns no older value, except from
// the local levels of other processes: see the package documentation.
//
// One round trip. After an error it may have been done or not; repeat it.
func (c *Cache[K, V]) Invalidate(ctx context.Context, key K) error {
	return c.InvalidateMany(ctx, []K{key})
}

// InvalidateMany is Invalidate for several keys: one round trip to each server. After an error it
// may have been done for some of them; repeat it.
func (c *Cache[K, V]) InvalidateMany(ctx context.Context, keys []K) error {
	ps := make([]place[K], len(keys))
	var errs []error
	for i, k := range keys {
		var err error
		ps[i], err = c.place(k)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	texts, entries := make([]string, len(ps)), make([]string, len(ps))
	for i, p := range ps {
		texts[i], entries[i] = p.text, p.entry
	}
	return c.invalidate(ctx, texts, entries)
}

func (c *Cache[K, V]) invalidate(ctx context.Context, texts, entries []string) error {
	if len(texts) == 0 {
		return nil
	}
	if c.isClosed() {
		return redoubt.ErrClosed
	}
	// Also after an error: it may have been done.
	defer func() {
		for _, text := range texts {
			c.local.invalidate(text)
			c.forget(text)
		}
	}()
	cmds := make([]redoubt.Cmd, len(texts))
	for i := range cmds {
		cmds[i] = wire.InvalidateCmd(entries[i], c.channel, c.id+texts[i])
	}
	if len(cmds) == 1 {
		return c.client.Do(ctx, cmds[0]).Err
	}
	var errs []error
	for _, r := range c.client.Pipeline(ctx, cmds) {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

func (c *Cache[K, V]) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed
}

// isReply reports whether err is a reply of the server, and not a missing reply.
func isReply(err error) bool {
	_, ok := errors.AsType[redoubt.ServerError](err)
	return ok
}
