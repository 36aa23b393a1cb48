package engine

import (
	"bytes"
	"math"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// The errors that commands of streams share.
const (
	errStreamID     = "ERR Invalid stream ID specified as stream command argument"
	errStartID      = "ERR invalid start ID for the interval"
	errEndID        = "ERR invalid end ID for the interval"
	errTwoTrims     = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errStreamTooBig = "ERR Elements are too large to be stored"
)

// cText returns b up to its first zero byte, as C reads it.
func cText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// parseStreamID is [stream.ParseID] for an ID that exists: its sequence is not *.
func parseStreamID(arg []byte, missing uint64, strict bool) (stream.ID, bool) {
	id, auto, ok := stream.ParseID(arg, missing, strict)
	return id, ok && !auto
}

// argID reads an ID that is neither - nor +, and writes the error.
func (c *call) argID(arg []byte) (stream.ID, bool) {
	id, ok := parseStreamID(arg, 0, true)
	if !ok {
		c.err(errStreamID)
	}
	return id, ok
}

// argIDs reads IDs, all before the command does anything.
func (c *call) argIDs(args [][]byte) ([]stream.ID, bool) {
	ids := make([]stream.ID, len(args))
	for i, a := range args {
		var ok bool
		if ids[i], ok = c.argID(a); !ok {
			return nil, false
		}
	}
	return ids, true
}

// argStart reads the lower end of a range of IDs. Behind a ( the end itself is not in the range.
func (c *call) argStart(arg []byte) (stream.ID, bool) {
	id, open, ok := c.argEnd(arg, 0)
	if ok && open {
		if id, ok = id.Next(); !ok {
			c.err(errStartID)
		}
	}
	return id, ok
}

// argStop is argStart for the upper end.
func (c *call) argStop(arg []byte) (stream.ID, bool) {
	id, open, ok := c.argEnd(arg, math.MaxUint64)
	if ok && open {
		if id, ok = id.Prev(); !ok {
			c.err(errEndID)
		}
	}
	return id, ok
}

func (c *call) argEnd(arg []byte, missing uint64) (id stream.ID, open, ok bool) {
	if len(arg) > 1 && arg[0] == '(' {
		arg, open = arg[1:], true
	}
	if id, ok = parseStreamID(arg, missing, open); !ok {
		c.err(errStreamID)
	}
	return id, open, ok
}

// argIDRange reads both ends of a range.
func (c *call) argIDRange(from, to []byte) (a, b stream.ID, ok bool) {
	if a, ok = c.argStart(from); ok {
		b, ok = c.argStop(to)
	}
	return a, b, ok
}

// A trimming says which entries XADD and XTRIM remove.
type trimming struct {
	stream.Trimming

	at     int   // the argument with the length or the ID, 0 if there is nothing to trim
	limits []int // the arguments LIMIT
}

// addedEntry is what XADD says of the entry.
type addedEntry struct {
	id     stream.ID
	given  bool // the ID is not *
	auto   bool // its sequence is *
	noMake bool // NOMKSTREAM
	at     int  // the argument with the ID
}

// argTrim reads the options of XTRIM, and the options of XADD and the ID behind them if entry is not nil.
// It has answered with an error when ok is false.
func (c *call) argTrim(entry *addedEntry) (t trimming, ok bool) {
	limited := false
	i := 2
options:
	for ; i < len(c.args); i++ {
		more := len(c.args) - 1 - i
		switch a := c.args[i]; {
		case entry != nil && len(a) > 0 && string(cText(a)) == "*":
			break options
		case more > 0 && (is(a, "maxlen") || is(a, "minid")):
			if t.at != 0 {
				c.err(errTwoTrims)
				return t, false
			}
			t.Approx = false
			if next := cText(c.args[i+1]); more >= 2 && len(next) == 1 && (next[0] == '~' || next[0] == '=') {
				t.Approx = next[0] == '~'
				i++
			}
			i++
			t.at = i
			if is(a, "minid") {
				t.ByID = true
				if t.MinID, ok = c.argID(c.args[i]); !ok {
					return t, false
				}
				continue
			}
			n, ok := c.argInt(c.args[i])
			if !ok {
				return t, false
			}
			if n < 0 {
				c.err("ERR The MAXLEN argument must be >= 0.")
				return t, false
			}
			t.MaxLen = uint64(n)
		case more > 0 && is(a, "limit"):
			if t.Limit, ok = c.argInt(c.args[i+1]); !ok {
				return t, false
			}
			if t.Limit < 0 {
				c.err("ERR The LIMIT argument must be >= 0.")
				return t, false
			}
			t.limits = append(t.limits, i)
			limited = true
			i++
		case entry != nil && is(a, "nomkstream"):
			entry.noMake = true
		case entry != nil:
			if entry.id, entry.auto, ok = stream.ParseID(a, 0, true); !ok {
				c.err(errStreamID)
				return t, false
			}
			entry.given = true
			break options
		default:
			c.syntax()
			return t, false
		}
	}
	if entry != nil {
		entry.at = i
	}
	return t, c.checkTrim(&t, entry != nil, limited)
}

func (c *call) checkTrim(t *trimming, add, limited bool) bool {
	switch {
	case t.Limit != 0 && t.at == 0:
		c.err("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
		return false
	case !add && t.at == 0:
		c.err("ERR syntax error, XTRIM must be called with a trimming strategy")
		return false
	case limited && !t.Approx:
		c.err("ERR syntax error, LIMIT cannot be used without the special ~ option")
		return false
	case !limited && t.Approx:
		t.Limit = 100 * int64(min(c.e.config.limits.Load().stream.Entries, 10_000))
		if t.Limit == 0 {
			t.Limit = 10_000
		}
	}
	return true
}
