package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

const (
	tagPart    = "tag"
	taggedPart = "tagged"

	// apart is how far apart the clocks of a cluster's nodes may be.
	apart = time.Second
)

// tagsOf returns the tags of a value that is to be stored.
func (c *Cache[K, V]) tagsOf(key K, a answer[V]) []string {
	if c.opts.Tags == nil || !a.found {
		return nil
	}
	return c.opts.Tags(key, a.v)
}

// tagKeys returns the keys of a tag.
func (c *Cache[K, V]) tagKeys(tag string) ([]string, error) {
	if len(tag) == 0 || len(tag) > MaxKey {
		return nil, fmt.Errorf("cache: a tag has %d bytes; want 1 to %d", len(tag), MaxKey)
	}
	members, err := c.client.Key(c.opts.Name+":"+tag, tagPart)
	if err != nil {
		return nil, err
	}
	tagged, err := c.client.Key(c.opts.Name+":"+tag, taggedPart)
	return []string{members, tagged}, err
}

// tagCmds returns the commands that add an entry to tags.
func (c *Cache[K, V]) tagCmds(p place[K], tags []string, keep time.Duration) (cmds []redoubt.Cmd, err error) {
	for _, tag := range tags {
		keys, err := c.tagKeys(tag)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, wire.TagCmd(keys, p.text, keep))
	}
	return cmds, nil
}

func (c *Cache[K, V]) addTags(ctx context.Context, p place[K], tags []string, keep time.Duration) error {
	if len(tags) == 0 {
		return nil
	}
	cmds, err := c.tagCmds(p, tags, keep)
	if err != nil {
		return err
	}
	for _, r := range c.client.Pipeline(ctx, cmds) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// tag adds entries that are about to be stored to their tags. It returns which of them must not be
// stored: if a tag was invalidated after the lease of the load began, the loaded value may be
// older. It clears the TTL of entries whose tags are invalid, or may not be on the server.
func (c *Cache[K, V]) tag(ctx context.Context, fs []*lookup[K, V], outs []outcome[V], ttls []time.Duration) (invalidated []bool) {
	invalidated = make([]bool, len(fs))
	var cmds []redoubt.Cmd
	var of []int
	for i, f := range fs {
		if f.owner == "" || ttls[i] == 0 {
			continue
		}
		keep := ttls[i] + max(c.opts.StaleFor, c.opts.StaleIfError)
		more, err := c.tagCmds(f.place, c.tagsOf(f.key, outs[i].answer), keep)
		if err != nil {
			ttls[i] = 0
			c.emit(ctx, Event{Kind: Dropped, Key: f.text, Err: err})
			continue
		}
		cmds = append(cmds, more...)
		for range more {
			of = append(of, i)
		}
	}
	for j, r := range c.send(ctx, cmds) {
		i := of[j]
		var last [1]int64
		if err := r.Ints(last[:]); err != nil {
			ttls[i] = 0
			continue
		}
		margin := int64(0)
		if c.client.Node(cmds[j].Keys[0]) != c.client.Node(fs[i].entry) {
			margin = micros(apart)
		}
		if last[0] != 0 && last[0] >= fs[i].leasedAt-margin {
			invalidated[i] = true
		}
	}
	return invalidated
}

// InvalidateTag invalidates all entries that were stored with the tag. A load that is running is
// not stored if its value has the tag. One round trip for the tag; for about 256 entries two more,
// and the round trips of [Cache.InvalidateMany]. After an error, or when ctx ends, it has been done
// for some entries; repeat it.
func (c *Cache[K, V]) InvalidateTag(ctx context.Context, tag string) error {
	keys, err := c.tagKeys(tag)
	if err != nil {
		return err
	}
	if err := c.client.Do(ctx, wire.TagMarkCmd([]string{keys[1], keys[0]})).Err; err != nil {
		return err
	}
	for cursor := "0"; ; {
		page, err := c.client.Do(ctx, redoubt.Cmd{
			Name: "ZSCAN", Keys: keys[:1], Args: []string{cursor, "COUNT", "256"}, Flags: redoubt.ReadOnly,
		}).Array()
		if err != nil {
			return err
		}
		if len(page) != 2 {
			return fmt.Errorf("cache: reply of ZSCAN has %d elements, want 2", len(page))
		}
		if cursor, err = (redoubt.Reply{Val: page[0]}).Text(); err != nil {
			return err
		}
		pairs, err := redoubt.Reply{Val: page[1]}.Array()
		if err != nil {
			return err
		}
		if err := c.invalidatePairs(ctx, keys[0], pairs); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
}

// invalidatePairs invalidates a page of keys, and then removes them from the tag, except keys that
// were added again meanwhile: their loads began later.
func (c *Cache[K, V]) invalidatePairs(ctx context.Context, tag string, pairs []any) error {
	var texts, entries, args []string
	for i := 0; i+1 < len(pairs); i += 2 {
		text, err := (redoubt.Reply{Val: pairs[i]}).Text()
		score, scoreErr := redoubt.Reply{Val: pairs[i+1]}.Text()
		entry, keyErr := c.client.Key(c.opts.Name+":"+text, entryPart)
		if err := errors.Join(err, scoreErr, keyErr); err != nil {
			return err
		}
		texts, entries, args = append(texts, text), append(entries, entry), append(args, text, score)
	}
	if len(texts) == 0 {
		return nil
	}
	if err := c.invalidate(ctx, texts, entries); err != nil {
		return err
	}
	return c.client.Do(ctx, wire.TagDropCmd(tag, args)).Err
}
