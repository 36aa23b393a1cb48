package rdb

import (
	"encoding/binary"
	"slices"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// A stream is its nodes, each with its ID as a string of 16 bytes and its entries as a listpack; the number of
// entries, the last ID, [from the second form on] the first ID, the largest ID that was deleted, and the
// number of entries ever added. Then its groups: the name, the last ID, [from the second form on] the
// number of entries read, the pending entries, and the consumers: the name, when it was seen, [in the
// third form] when it was active, and the IDs of its pending entries.

const (
	idBytes      = 16
	timeBytes    = 8
	pendingBytes = 120 // what a pending entry takes in memory, at most
	memberBytes  = 200 // likewise a consumer or a group
)

// stream reads a stream of some form, 1 to 3.
func (r *reader) stream(form int) *stream.Stream {
	s := stream.New()
	for n := r.count(); n > 0 && !r.bad; n-- {
		key := r.string()
		pack := r.string()
		if r.bad || r.measures {
			continue
		}
		if len(key) != idBytes || !s.AddNode(bigID(key), pack, r.work) {
			r.bad = true
		}
	}
	length, last := r.number(), r.id()
	var deleted stream.ID
	added := length
	if form >= 2 {
		r.id() // the first ID, which the nodes tell
		deleted, added = r.id(), r.number()
	}
	if !r.measures {
		top, ok := s.TopID()
		if length != uint64(s.Len()) || ok && last.Less(top) { //nolint:gosec // not negative
			r.bad = true
		}
	}
	s.SetID(last, added, deleted)
	for n := r.count(); n > 0 && !r.bad; n-- {
		r.group(s, form)
	}
	return s
}

// group reads a consumer group.
func (r *reader) group(s *stream.Stream, form int) {
	r.spend(memberBytes)
	name, last := r.string(), r.id()
	read := int64(stream.Unknown)
	if form >= 2 {
		read = int64(r.number()) //nolint:gosec // -1 is stored so
	} else if !r.bad {
		read = s.Estimate(last)
	}
	var g *stream.Group
	if !r.bad && !r.measures {
		if g = s.AddGroup(name, last, read); g == nil || read < stream.Unknown {
			r.bad = true
		}
	}
	pending := r.pending(r.count())
	taken := make([]bool, len(pending))
	left := len(pending)
	for n := r.count(); n > 0 && !r.bad; n-- {
		r.spend(memberBytes)
		name := r.string()
		seen := r.millis()
		if form >= 3 {
			r.millis() // active
		}
		var c *stream.Consumer
		if !r.bad && !r.measures {
			c = g.AddConsumer(name, seen)
			r.bad = c == nil
		}
		for m := r.count(); m > 0 && !r.bad; m-- {
			id := r.take(idBytes)
			if r.work.count(pendingBytes); r.bad || r.measures {
				continue
			}
			i, ok := slices.BinarySearchFunc(pending, bigID(id), func(p stream.Pending, id stream.ID) int { return p.ID.Compare(id) })
			if !ok || taken[i] {
				r.bad = true
				return
			}
			taken[i] = true
			p := pending[i]
			p.Consumer = c
			g.Put(p)
			left--
		}
	}
	if left > 0 && !r.measures { // pending for nobody
		r.bad = true
	}
}

// pending reads the pending entries of a group, which come in order.
func (r *reader) pending(n uint64) (all []stream.Pending) {
	for ; n > 0 && !r.bad; n-- {
		raw := r.take(idBytes)
		at, count := r.millis(), r.number()
		if !r.spend(pendingBytes) || r.measures {
			continue
		}
		p := stream.Pending{ID: bigID(raw), Time: at, Count: count}
		if len(all) > 0 && !all[len(all)-1].ID.Less(p.ID) {
			r.bad = true
			return nil
		}
		all = append(all, p)
	}
	return all
}

// number reads a number in the form of a length.
func (r *reader) number() uint64 {
	n, special := r.length()
	r.bad = r.bad || special
	return n
}

func (r *reader) id() stream.ID { return stream.ID{MS: r.number(), Seq: r.number()} }

func (r *reader) millis() int64 {
	p := r.take(timeBytes)
	if p == nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p)) //nolint:gosec // as in Redis
}

func bigID(b []byte) stream.ID {
	return stream.ID{MS: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}
}

func appendBigID(dst []byte, id stream.ID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, id.MS), id.Seq)
}

func appendID(dst []byte, id stream.ID) []byte { return appendLen(appendLen(dst, id.MS), id.Seq) }

func appendMillis(dst []byte, at int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(at)) //nolint:gosec // as in Redis
}

// StreamBytes is about how many bytes [Payload] needs for a stream.
func StreamBytes(s *stream.Stream) int {
	n := 128
	s.EachNode(func(_ stream.ID, pack []byte) bool {
		n += len(pack) + idBytes + 6
		return true
	})
	s.EachGroup(func(g *stream.Group) bool {
		n += len(g.Name()) + 64 + g.Pending()*(2*idBytes+timeBytes+9)
		g.EachConsumer(func(c *stream.Consumer) bool {
			n += len(c.Name()) + 32
			return true
		})
		return true
	})
	return n
}

// appendStream writes a stream in its first or second form.
func appendStream(dst []byte, s *stream.Stream, form int, work Work) []byte {
	if form == 1 {
		dst = append(dst, typeStreamListpacks)
	} else {
		dst = append(dst, typeStreamListpacks2)
	}
	dst = appendLen(dst, uint64(s.Nodes())) //nolint:gosec // not negative
	s.EachNode(func(id stream.ID, pack []byte) bool {
		work.count(perElement + len(pack))
		dst = appendBigID(appendLen(dst, idBytes), id)
		dst = append(appendLen(dst, uint64(len(pack))), pack...)
		return true
	})
	return appendGroups(appendIDs(dst, s, uint64(s.Len()), form), s, form, work) //nolint:gosec // not negative
}

func appendIDs(dst []byte, s *stream.Stream, length uint64, form int) []byte {
	dst = appendID(appendLen(dst, length), s.LastID())
	if form >= 2 {
		dst = appendID(appendID(dst, s.FirstID()), s.MaxDeletedID())
		dst = appendLen(dst, s.EntriesAdded())
	}
	return dst
}

func appendGroups(dst []byte, s *stream.Stream, form int, work Work) []byte {
	dst = appendLen(dst, uint64(s.Groups())) //nolint:gosec // not negative
	all := stream.Largest
	s.EachGroup(func(g *stream.Group) bool {
		work.count(perElement)
		dst = appendID(appendString(dst, []byte(g.Name())), g.LastID())
		if form >= 2 {
			dst = appendLen(dst, uint64(g.EntriesRead())) //nolint:gosec // -1 is written so
		}
		dst = appendLen(dst, uint64(g.Pending())) //nolint:gosec // not negative
		g.EachPending(stream.ID{}, all, func(p stream.Pending) bool {
			work.count(perElement)
			dst = appendLen(appendMillis(appendBigID(dst, p.ID), p.Time), p.Count)
			return true
		})
		dst = appendLen(dst, uint64(g.Consumers())) //nolint:gosec // not negative
		g.EachConsumer(func(c *stream.Consumer) bool {
			dst = appendMillis(appendString(dst, []byte(c.Name())), c.SeenTime)
			dst = appendLen(dst, uint64(c.Pending())) //nolint:gosec // not negative
			c.EachPending(stream.ID{}, all, func(p stream.Pending) bool {
				work.count(perElement)
				dst = appendBigID(dst, p.ID)
				return true
			})
			return true
		})
		return true
	})
	return dst
}
