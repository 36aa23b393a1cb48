package engine

import (
	"slices"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// getStream returns the stream of a key, nil when there is none; ok is false when an error was
// written.
func (c *call) getStream(it *item) (s *stream.Stream, ok bool) {
	if it == nil {
		return nil, true
	}
	if it.val.kind() != kindStream {
		c.wrongType()
		return nil, false
	}
	return asStream(it), true
}

// modified is [call.changed] for a change of consumer groups: WATCH and CLIENT TRACKING don't see
// it, as in Redis.
func (c *call) modified(key []byte) {
	c.dirty++
	if c.e.opts.Journal != nil {
		c.touched = append(c.touched, key)
	}
}

// streamID replies with an ID.
func (c *call) streamID(id stream.ID) {
	var buf [48]byte
	c.bulk(id.Append(buf[:0]))
}

// streamEntry replies with the entry at a cursor.
func (c *call) streamEntry(at *stream.Cursor) {
	pairs := at.Pairs()
	c.array(2)
	c.streamID(at.ID())
	c.array(2 * pairs)
	for range pairs {
		field, value := at.Pair()
		c.bulk(field)
		c.bulk(value)
	}
}

// nextEntry moves a cursor and counts the work of that. The command must not have changed anything
// yet.
func (c *call) nextEntry(at *stream.Cursor) bool {
	ok := at.Next()
	c.work(stepsPerElement * (2 + at.Steps()))
	if ok {
		c.work(stepsPerElement * at.Pairs())
	}
	return ok
}

// streamEntries replies with at most count entries, all when it is 0.
func (c *call) streamEntries(at *stream.Cursor, count int64) {
	start, n := c.begin(), int64(0)
	for (count == 0 || n < count) && c.nextEntry(at) {
		c.streamEntry(at)
		n++
	}
	c.end(start, int(n))
}

func cmdXadd(c *call) {
	var entry addedEntry
	trim, ok := c.argTrim(&entry)
	if !ok {
		return
	}
	pairs := c.args[min(entry.at+1, len(c.args)):]
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		c.err("ERR wrong number of arguments for 'xadd' command")
		return
	}
	if entry.given && !entry.auto && entry.id.IsZero() {
		c.err("ERR The ID specified in XADD must be greater than 0-0")
		return
	}
	key := c.args[1]
	it := c.write(key)
	s, ok := c.getStream(it)
	if !ok {
		return
	}
	made := s == nil
	if made {
		if entry.noMake {
			c.null()
			return
		}
		s = new(stream.Stream)
	}
	id, ok := c.newID(s, &entry)
	if !ok {
		return
	}
	if !s.Add(c.e.config.limits.Load().stream, id, pairs) {
		c.err(errStreamTooBig)
		return
	}
	if made {
		c.create(key, newStream(s))
	} else {
		c.signal(c.shard(key), it)
	}
	c.streamID(id)
	c.changed(key)
	c.notify(eventStream, "xadd", key)
	if trim.at != 0 && s.Trim(trim.Trimming) > 0 {
		c.notify(eventStream, "xtrim", key)
	}
	if trim.Approx || !entry.given || entry.auto {
		c.insteadOfTrim(s, &trim, &entry, id)
	}
}

// newID finds the ID of a new entry. It writes the error.
func (c *call) newID(s *stream.Stream, entry *addedEntry) (id stream.ID, ok bool) {
	if s.LastID() == stream.Largest {
		c.err("ERR The stream has exhausted the last possible ID, unable to add more items")
		return id, false
	}
	switch id = entry.id; {
	case !entry.given:
		id, ok = s.NextID(uint64(max(c.time(), 0))) //nolint:gosec // not negative
	case entry.auto:
		id, ok = s.NextSeq(id.MS)
	default:
		ok = s.LastID().Less(id)
	}
	if !ok {
		c.err("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	}
	return id, ok
}

// insteadOfTrim logs XADD or XTRIM with the ID that the entry has got, and with what is left in place
// of how much to trim: approximate trimming depends on the nodes. entry is nil for XTRIM.
func (c *call) insteadOfTrim(s *stream.Stream, t *trimming, entry *addedEntry, id stream.ID) {
	if !c.journaled() {
		c.logged = true
		return
	}
	args := slices.Clone(c.args)
	if entry != nil {
		args[entry.at] = id.Append(nil)
	}
	if t.Approx {
		args[t.at-1] = []byte("=")
		switch {
		case !t.ByID:
			args[t.at] = appendInt(nil, int64(s.Len()))
		case s.Len() == 0:
			args[t.at] = stream.Largest.Append(nil)
		default:
			args[t.at] = s.FirstID().Append(nil)
		}
		for _, i := range slices.Backward(t.limits) {
			args = slices.Delete(args, i, i+2)
		}
	}
	c.instead(args...)
}

func cmdXtrim(c *call) {
	t, ok := c.argTrim(nil)
	if !ok {
		return
	}
	key := c.args[1]
	s, ok := c.getStream(c.write(key))
	if !ok {
		return
	}
	if s == nil {
		c.int(0)
		return
	}
	n := s.Trim(t.Trimming)
	if n > 0 {
		c.notify(eventStream, "xtrim", key)
		c.changed(key)
		c.dirty += int(n) - 1
		if t.Approx {
			c.insteadOfTrim(s, &t, nil, stream.ID{})
		}
	}
	c.int(n)
}

func cmdXlen(c *call) {
	s, ok := c.getStream(c.read(c.args[1]))
	switch {
	case !ok:
	case s == nil:
		c.int(0)
	default:
		c.int(int64(s.Len()))
	}
}

func cmdXrange(c *call)    { c.xrange(2, 3, (*stream.Stream).Range) }
func cmdXrevrange(c *call) { c.xrange(3, 2, (*stream.Stream).RangeBack) }

func (c *call) xrange(from, to int, over func(s *stream.Stream, from, to stream.ID) *stream.Cursor) {
	a, b, ok := c.argIDRange(c.args[from], c.args[to])
	if !ok {
		return
	}
	count, limited := int64(0), false
	for i := 4; i < len(c.args); i += 2 {
		if !is(c.args[i], "count") || i+1 == len(c.args) {
			c.syntax()
			return
		}
		if count, ok = c.argInt(c.args[i+1]); !ok {
			return
		}
		limited = true
	}
	s, ok := c.getStream(c.read(c.args[1]))
	switch {
	case !ok:
	case s == nil:
		c.array(0)
	case limited && count <= 0:
		c.nullArray()
	default:
		c.streamEntries(over(s, a, b), count)
	}
}

func cmdXdel(c *call) {
	key := c.args[1]
	s, ok := c.getStream(c.write(key))
	if !ok {
		return
	}
	if s == nil {
		c.int(0)
		return
	}
	ids, ok := c.argIDs(c.args[2:])
	if !ok {
		return
	}
	n := 0
	for _, id := range ids {
		if s.Delete(id) {
			n++
		}
	}
	if n > 0 {
		c.changed(key)
		c.dirty += n - 1
		c.notify(eventStream, "xdel", key)
	}
	c.int(int64(n))
}

func cmdXsetid(c *call) {
	last, ok := c.argID(c.args[2])
	if !ok {
		return
	}
	added, deleted := int64(-1), stream.ID{}
	for i := 3; i < len(c.args); i += 2 {
		switch more := i+1 < len(c.args); {
		case more && is(c.args[i], "entriesadded"):
			if added, ok = c.argInt(c.args[i+1]); !ok {
				return
			}
			if added < 0 {
				c.err("ERR entries_added must be positive")
				return
			}
		case more && is(c.args[i], "maxdeletedid"):
			if deleted, ok = c.argID(c.args[i+1]); !ok {
				return
			}
			if last.Less(deleted) {
				c.err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
				return
			}
		default:
			c.syntax()
			return
		}
	}
	key := c.args[1]
	it := c.write(key)
	if it == nil {
		c.err(errNoKey)
		return
	}
	s, ok := c.getStream(it)
	if !ok {
		return
	}
	if top, ok := s.TopID(); ok {
		if last.Less(top) {
			c.err("ERR The ID specified in XSETID is smaller than the target stream top item")
			return
		}
		if added != -1 && int64(s.Len()) > added {
			c.err("ERR The entries_added specified in XSETID is smaller than the target stream length")
			return
		}
	}
	n := s.EntriesAdded()
	if added != -1 {
		n = uint64(added) //nolint:gosec // not negative
	}
	if deleted.IsZero() {
		deleted = s.MaxDeletedID()
	}
	s.SetID(last, n, deleted)
	c.ok()
	c.modified(key)
	c.notify(eventStream, "xsetid", key)
}
