package ratelimit

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// BeginCmd begins a call that lasts for ttl, if fewer than limit are under way.
// [ReadBegin] reads its reply.
func BeginCmd(key, id string, ttl time.Duration, limit int) redoubt.Cmd {
	return redoubt.Cmd{
		Script: enterScript,
		Keys:   []string{key},
		Args:   []string{id, strconv.FormatInt(ttl.Microseconds(), 10), strconv.Itoa(limit)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadBegin reads the reply to [BeginCmd]: whether the call began, how many are under way, and when
// the lease of one of them ends.
func ReadBegin(r redoubt.Reply) (begun bool, underWay int, next time.Duration, err error) {
	var v [3]int64
	err = r.Ints(v[:])
	return v[0] == 1, int(v[1]), time.Duration(v[2]) * time.Microsecond, err
}

// StayCmd makes a call last ttl from now, or ends it with 0.
func StayCmd(key, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: stayScript,
		Keys:   []string{key},
		Args:   []string{id, strconv.FormatInt(ttl.Microseconds(), 10)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadStay reads the reply to [StayCmd]: whether the call was under way.
func ReadStay(r redoubt.Reply) (bool, error) {
	var v [1]int64
	err := r.Ints(v[:])
	return v[0] == 1, err
}

// ReturnCmd gives n tokens back that were granted at the time granted, in µs, by the limits t.
func ReturnCmd(key string, granted int64, t *Terms, n int64) redoubt.Cmd {
	return redoubt.Cmd{Script: returnScript, Keys: []string{key}, Args: t.Args([]string{strconv.FormatInt(granted, 10)}, n)}
}
