package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
)

// What follows makes commands and reads their replies, for servers that pass
// commands on. Go programs call the methods that run them.

// A Read turns the reply to a command into the Decision.
type Read func(redoubt.Reply) (Decision, error)

// AllowCmd is [Limiter.AllowN] as a command.
func (l *Limiter) AllowCmd(name string, n int) (redoubt.Cmd, Read, error) {
	cmd, err := l.takeCmd(name, n)
	return cmd, func(r redoubt.Reply) (Decision, error) { return l.readTake(r, n) }, err
}

// AllowCmd is [Window.AllowN] as a command.
func (w *Window) AllowCmd(name string, n int) (redoubt.Cmd, Read, error) {
	cmd, err := w.cmd(name, n, n)
	return cmd, func(r redoubt.Reply) (Decision, error) { return readCount(r, n, w.limits) }, err
}

// AllowCmd is [Quota.AllowN] as a command. Its reply may be [ErrElsewhen].
func (q *Quota) AllowCmd(name string, n int) (redoubt.Cmd, Read, error) { return q.cmd(name, n, n) }

// forEver is more than any limit makes one wait.
const forEver = math.MaxInt64

// ReserveCmd is [Limiter.Reserve] as a command, for tokens that come within a
// time; 0 is no bound.
func (l *Limiter) ReserveCmd(name string, n int, within time.Duration) (redoubt.Cmd, func(redoubt.Reply) (*Reservation, error), error) {
	if n < 1 {
		return redoubt.Cmd{}, nil, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	if within == 0 {
		within = forEver
	}
	s, ns := split(int64(within))
	cmd, err := l.cmd(take, name, n, s, ns)
	return cmd, func(r redoubt.Reply) (*Reservation, error) {
		o, t, err := l.read(r)
		if err != nil {
			return nil, err
		}
		return l.reservation(t, o, name, n), nil
	}, err
}

// Receipt returns what [Limiter.CancelCmd] takes: text without blanks. It is empty if the tokens are not reserved.
func (r *Reservation) Receipt() string {
	if !r.Allowed {
		return ""
	}
	words := append([]string{r.id()}, r.terms.args(nil, int64(r.n))...)
	return strings.Join(append(words, strings.Fields(r.tats)...), ":")
}

// CancelCmd is [Reservation.Cancel] as a command, by the receipt of the
// reservation. [ReadCancel] reads its reply.
func (l *Limiter) CancelCmd(name, receipt string) (redoubt.Cmd, error) {
	words := strings.Split(receipt, ":")
	limits := len(words) / 5
	ok := len(words) == 1+5*limits && limits >= 1 && limits <= MaxLimits && words[0] != "" && len(words[0]) <= maxID
	for i, w := range words[1:] {
		least, most := 1, 9+(i+1)%2*2 // ns, or seconds
		if i >= 4*limits {
			least, most = 10, 20
		}
		ok = ok && len(w) >= least && len(w) <= most && strings.Trim(w, "0123456789") == ""
	}
	if !ok {
		return redoubt.Cmd{}, ErrInvalidReceipt
	}
	return l.cancelCmd(name, words[0], strings.Join(words[1+4*limits:], " "), words[1:1+4*limits])
}

// ErrInvalidReceipt is returned by [Limiter.CancelCmd] for what is no receipt.
var ErrInvalidReceipt = errors.New("ratelimit: this is no receipt of a reservation")

// ReadCancel reads the reply to [Limiter.CancelCmd]: whether the reservation's
// time had not come, so that its tokens were given back.
func ReadCancel(r redoubt.Reply) (bool, error) {
	a, err := r.Array()
	if err != nil {
		return false, err
	}
	n, err := redoubt.Reply{Val: append(a, nil)[0]}.Int()
	return n == 1, err
}

// cancelCmd gives a reservation back by the limits that it was made under, also
// if others are stored now.
func (l *Limiter) cancelCmd(name, id, tats string, limits []string) (redoubt.Cmd, error) {
	keys, err := l.keys(refund, nil, name)
	return redoubt.Cmd{
		Script: refundScript,
		Keys:   keys,
		Args:   slices.Concat([]string{id, tats, "0"}, limits),
		Flags:  redoubt.Idempotent,
	}, err
}

// RefundCmd is [Limiter.Refund] as a command.
func (l *Limiter) RefundCmd(name string, n int, id string) (redoubt.Cmd, Read, error) {
	if n < 1 {
		return redoubt.Cmd{}, nil, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	if len(id) > maxID {
		return redoubt.Cmd{}, nil, fmt.Errorf("ratelimit: id has %d bytes; want at most %d", len(id), maxID)
	}
	once := "0"
	if id == "" {
		id, once = newID(), "1"
	}
	cmd, err := l.cmd(refund, name, n, id, "", once)
	cmd.Flags = redoubt.Idempotent
	return cmd, func(r redoubt.Reply) (Decision, error) {
		o, t, err := l.read(r)
		if err != nil {
			return Decision{}, err
		}
		return t.decide(o, 0, 0), nil
	}, err
}

// SetCmd is [Limiter.Set] as a command. [ReadLimits] reads its reply.
func (l *Limiter) SetCmd(name string, limit Limit, and ...Limit) (redoubt.Cmd, error) {
	cmd, err := l.defineCmd(name, "0", limit, and)
	cmd.Flags = redoubt.Idempotent
	return cmd, err
}

// TrySetCmd is [Limiter.TrySet] as a command. [ReadLimits] reads its reply.
func (l *Limiter) TrySetCmd(name string, limit Limit, and ...Limit) (redoubt.Cmd, error) {
	return l.defineCmd(name, "1", limit, and)
}

func (l *Limiter) defineCmd(name, first string, limit Limit, and []Limit) (redoubt.Cmd, error) {
	key, err := l.limitKey(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	t, err := newTerms(limit, and)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return redoubt.Cmd{Script: defineScript, Keys: []string{key}, Args: []string{t.String(), first}}, nil
}

// GetCmd is [Limiter.Get] as a command. [ReadLimits] reads its reply.
func (l *Limiter) GetCmd(name string) (redoubt.Cmd, error) {
	key, err := l.limitKey(name)
	return redoubt.Cmd{Script: defineScript, Keys: []string{key}, Args: []string{"", "0"}, Flags: redoubt.ReadOnly}, err
}

// ReadLimits reads the reply to [Limiter.SetCmd], TrySetCmd and GetCmd: whether
// the command stored its limits, and which are stored now, if any are.
func ReadLimits(r redoubt.Reply) (stored bool, limits []Limit, err error) {
	two, err := r.Array()
	if err != nil {
		return false, nil, err
	}
	if len(two) != 2 {
		return false, nil, fmt.Errorf("ratelimit: reply has %d elements, want 2", len(two))
	}
	n, err := redoubt.Reply{Val: two[0]}.Int()
	if err != nil {
		return false, nil, err
	}
	text, err := redoubt.Reply{Val: two[1]}.Text()
	if err != nil || text == "" {
		return n == 1, nil, err
	}
	t, err := parseTerms(text)
	return n == 1, t.limits, err
}

// ResetCmd forgets what was taken under name from a [Limiter], a [Window] and a
// [Quota] of Scope Overall. The reply is an array of how many of them had
// anything.
func ResetCmd(client *redoubt.Client, name string) (redoubt.Cmd, error) {
	cmd := redoubt.Cmd{Script: resetScript, Flags: redoubt.Idempotent}
	for _, part := range []string{"gcra", "window", "quota"} {
		key, err := client.Key(name, part)
		if err != nil {
			return cmd, err
		}
		cmd.Keys = append(cmd.Keys, key)
	}
	return cmd, nil
}
