package engine

import (
	"errors"
	"math"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// cmdDump replies with the value in the format of Redis 7.0's RDB files, and with a hash whose
// fields have times to live in the format of Redis 7.4.
func cmdDump(c *call) {
	it := c.read(c.args[1])
	if it == nil {
		c.null()
		return
	}
	v := it.val.export(c.work)
	c.roomFor(v)
	c.bulk(rdb.PayloadWith(nil, v, c.workBytes))
}

// roomFor ends the command when a payload of v would be too large, before the payload is made.
func (c *call) roomFor(v *rdb.Value) {
	const longestInt = 11 // a longer string is never stored as a number
	n := len(v.Str)
	if v.Stream != nil {
		n = rdb.StreamBytes(v.Stream)
	}
	for _, part := range [][][]byte{v.Elements, v.Values} {
		for _, b := range part {
			c.work(1)
			if len(b) > longestInt {
				n += len(b)
			}
		}
	}
	c.room(n)
}

// export returns the value in a form that shares memory with it.
func (v *value) export(work func(steps int)) *rdb.Value {
	n := v.len()
	out := &rdb.Value{Elements: make([][]byte, 0, n)}
	switch v.kind() {
	case kindString:
		return &rdb.Value{Kind: rdb.String, Str: v.bytes()}
	case kindStream:
		return &rdb.Value{Kind: rdb.Stream, Stream: v.asStream()}
	case kindList:
		out.Kind = rdb.List
		v.asList().all(func(s string) bool {
			work(stepsPerMember)
			out.Elements = append(out.Elements, view(s))
			return true
		})
	case kindSet:
		out.Kind = rdb.Set
		v.asSet().each(func(m []byte) bool {
			work(stepsPerMember)
			if v.isBytes() {
				m = clone(m)
			}
			out.Elements = append(out.Elements, m)
			return true
		})
	case kindZset:
		out.Kind, out.Scores = rdb.Zset, make([]float64, 0, n)
		for at := v.asZset().first(); at.ok(); at = at.next() {
			work(stepsPerMember)
			out.Elements, out.Scores = append(out.Elements, view(at.member())), append(out.Scores, at.score())
		}
	case kindHash:
		h := v.asHash()
		out.Kind, out.Values = rdb.Hash, make([][]byte, 0, n)
		h.each(func(name string, f field) bool {
			work(2 * stepsPerMember)
			out.Elements, out.Values = append(out.Elements, view(name)), append(out.Values, view(f.value))
			if h.volatile() > 0 {
				out.Expires = append(out.Expires, f.expire)
			}
			return true
		})
	}
	return out
}

// imported makes a value from v, which is no string. It returns nil when a member or a field occurs
// twice, or when a field expires later than any command can set: the log consists of commands.
func (c *call) imported(v *rdb.Value) *value {
	out, l := &value{}, c.limits()
	switch v.Kind {
	case rdb.Stream:
		*out = newStream(v.Stream)
		return out
	case rdb.List:
		*out = newList()
		for _, s := range v.Elements {
			c.workElement(s)
			out.asList().pushBack(text(s))
		}
	case rdb.Set:
		*out = newSet()
		for _, m := range v.Elements {
			c.workElement(m)
			out.asSet().add(l, m)
		}
	case rdb.Zset:
		*out = newZset()
		for i, m := range v.Elements {
			c.workElement(m)
			out.asZset().set(l, m, v.Scores[i])
		}
	default:
		*out = newHash()
		h := out.asHash()
		for i, name := range v.Elements {
			c.workElement(name)
			c.workElement(v.Values[i])
			h.set(l, name, v.Values[i])
			if v.Expires != nil {
				if v.Expires[i] > mostFieldExpire {
					return nil
				}
				h.setExpire(name, v.Expires[i])
			}
		}
	}
	if out.len() != len(v.Elements) {
		return nil
	}
	return out
}

// restoreOptions are the options of RESTORE.
type restoreOptions struct {
	replace, absolute bool
	idle, freq        int64 // in seconds, and as in OBJECT FREQ; -1 when not given
}

func (c *call) parseRestore() (o restoreOptions, ok bool) {
	o.idle, o.freq = -1, -1
	for i := 4; i < len(c.args); i++ {
		switch a, more := c.args[i], i+1 < len(c.args); {
		case is(a, "replace"):
			o.replace = true
		case is(a, "absttl"):
			o.absolute = true
		case is(a, "idletime") && more && o.freq == -1:
			if o.idle, ok = c.argInt(c.args[i+1]); !ok {
				return o, false
			}
			if o.idle < 0 {
				c.err("ERR Invalid IDLETIME value, must be >= 0")
				return o, false
			}
			i++
		case is(a, "freq") && more && o.idle == -1:
			if o.freq, ok = c.argInt(c.args[i+1]); !ok {
				return o, false
			}
			if o.freq < 0 || o.freq > 255 {
				c.err("ERR Invalid FREQ value, must be >= 0 and <= 255")
				return o, false
			}
			i++
		default:
			c.syntax()
			return o, false
		}
	}
	return o, true
}

func restoreError(err error) string {
	switch {
	case errors.Is(err, rdb.ErrChecksum):
		return "ERR DUMP payload version or checksum are wrong"
	case errors.Is(err, rdb.ErrTooLarge):
		return "ERR the payload unpacks to more than a key may take at once: " + err.Error()
	}
	return "ERR Bad data format"
}

// mostRestored returns how many bytes the value of a RESTORE may take. maxmemory doesn't
// count while the log is read: it may have been larger when the value was saved.
func (c *call) mostRestored() int64 {
	if limit := c.e.memory.limit.Load(); limit > 0 && !c.replays() {
		return min(limit, c.e.bounds.restored)
	}
	return c.e.bounds.restored
}

// cmdRestore answers RESTORE key ttl_ms payload [REPLACE] [ABSTTL]
// [IDLETIME seconds] [FREQ n]. Which of the last two has an effect, the
// policy of eviction says.
func cmdRestore(c *call) {
	o, ok := c.parseRestore()
	if !ok {
		return
	}
	key := c.args[1]
	old := c.write(key)
	if old != nil && !o.replace {
		c.err("BUSYKEY Target key name already exists.")
		return
	}
	at, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if at < 0 || !o.absolute && at > math.MaxInt64-c.time() {
		c.err("ERR Invalid TTL value, must be >= 0")
		return
	}
	v, err := rdb.ParseAtMost(c.args[3], c.mostRestored(), c.workBytes)
	if err != nil {
		c.err(restoreError(err))
		return
	}
	var from item
	if v.Kind != rdb.String {
		made := c.imported(v)
		if made == nil {
			c.err(restoreError(rdb.ErrFormat))
			return
		}
		from.val = *made
	} else if len(v.Str) > maxString {
		c.err(restoreError(rdb.ErrFormat))
		return
	} else {
		from.val.setBytes(c.copied(v.Str))
	}
	if old != nil {
		c.remove(key)
	}
	if at != 0 && !o.absolute {
		at += c.time()
	}
	c.ok()
	if at != 0 && c.past(at) {
		if old != nil {
			c.changed(key)
			c.notify(eventGeneric, "del", key)
			c.instead([]byte("DEL"), key)
		}
		return
	}
	it := c.adopt(key, &from, at)
	switch counts := c.e.memory.counts.Load(); {
	case counts && o.freq >= 0:
		it.val.access = c.e.minutes()<<8 | uint32(o.freq)
	case !counts && o.idle > 0:
		it.val.access -= uint32(min(o.idle, longestIdle) * ticksPerSecond) //nolint:gosec // it fits
	}
	c.changed(key)
	c.notify(eventGeneric, "restore", key)
	c.instead([]byte("RESTORE"), key, appendInt(nil, at), c.args[3], []byte("ABSTTL"), []byte("REPLACE"))
}
