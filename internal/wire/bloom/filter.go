package bloom

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// OpenCmd reads the description of a filter at key. If there is none and text is not empty, it
// writes text; the keys are then to be made within a time.
func OpenCmd(key, text string, within time.Duration) redoubt.Cmd {
	return call(openScript, redoubt.Idempotent, []string{key}, text, decimal(within.Microseconds()))
}

// MakeCmd makes a shard of length bytes unless it exists, until a time of the server's clock, in
// µs. With a ttl the shard expires.
func MakeCmd(shard string, length, until int64, ttl time.Duration) redoubt.Cmd {
	return call(makeScript, redoubt.Idempotent, []string{shard}, decimal(length), decimal(until), decimal(ttl.Milliseconds()))
}

// A Shard is the state in which a shard takes items.
type Shard struct {
	Len  int64 // bytes
	Seal int64 // how many seals the caller knows of
	// From and Until bound the server's time, in µs; 0 for no bound.
	From, Until int64
	Hashes      int // the number of bits of an item
}

// AddCmd adds items, by the positions of their bits, 4 bytes each.
func AddCmd(shard, log string, s Shard, positions ...string) redoubt.Cmd {
	args := []string{decimal(s.Len), decimal(s.Seal), decimal(s.From), decimal(s.Until), decimal(s.Hashes)}
	return call(addScript, 0, []string{shard, log}, append(args, positions...)...)
}

// SealCmd gives a shard a number of seals. A caller that knows of fewer can no longer add to it.
func SealCmd(shard string, length, seals int64) redoubt.Cmd {
	return call(sealScript, redoubt.Idempotent, []string{shard}, decimal(length), decimal(seals))
}

// BeginCmd begins a rebuild from the generation current to next. id names the rebuild, which counts
// as alive for a time.
func BeginCmd(key, current, next, id string, alive time.Duration) redoubt.Cmd {
	return call(beginScript, redoubt.Idempotent, []string{key}, current, next, id, decimal(alive.Microseconds()))
}

// AdvanceCmd does the next step of a rebuild.
func AdvanceCmd(key, step, who string, alive time.Duration) redoubt.Cmd {
	return call(advanceScript, redoubt.Idempotent, []string{key}, step, who, decimal(alive.Microseconds()))
}

// ReadAdvanced reads the reply to [AdvanceCmd]: whether the step was done.
func ReadAdvanced(r redoubt.Reply) (bool, error) {
	var done [1]int64
	err := r.Ints(done[:])
	return done[0] == 1, err
}

// LogCmd reads the items that were added to a shard since a position in the log called last. If
// there is no log it begins one called id. The log is kept for ttl.
func LogCmd(shard, log, id string, length int64, last string, from int64, ttl time.Duration) redoubt.Cmd {
	return call(logScript, redoubt.Idempotent, []string{shard, log}, id, decimal(length), last, decimal(from), decimal(ttl.Milliseconds()))
}

// SlideCmd reads the description of a sliding filter at key. If there is none and text is not
// empty, it writes text. It notes that the keys of period are made, and removes the periods before
// oldest.
func SlideCmd(key, text, period, oldest string, ttl time.Duration) redoubt.Cmd {
	return call(slideScript, redoubt.Idempotent, []string{key}, text, period, oldest, decimal(ttl.Milliseconds()))
}

func call(s *redoubt.Script, flags redoubt.Flags, keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: s, Keys: keys, Args: args, Flags: flags}
}

func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
