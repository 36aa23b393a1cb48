package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// ErrNotConfigured is matched by the error of a call of a [Limiter] with
// Options.Stored, when no limits are stored under the name.
var ErrNotConfigured = errors.New("ratelimit: no limit is defined under this name")

// errNotStored is the error of a Limiter with limits of its own.
var errNotStored = errors.New("ratelimit: the limits of this Limiter are its own, not stored: see Options.Stored")

// TrySet stores the limits of name if none are stored, and reports whether it
// did: of many who try, the first decides. They stay until [Limiter.Set]
// changes them or [Limiter.Unset] removes them. It is sent once: after an error
// that matches redoubt.ErrUnknownOutcome, [Limiter.Get] tells what is stored.
func (l *Limiter) TrySet(ctx context.Context, name string, limit Limit, and ...Limit) (bool, error) {
	cmd, err := l.TrySetCmd(name, limit, and...)
	if err != nil {
		return false, err
	}
	defer l.denials.forget(name)
	stored, _, err := ReadLimits(l.client.Do(ctx, cmd))
	return stored, err
}

// Set stores the limits of name, in the place of others. What was taken stays
// taken: it is kept by the place of a limit among the others. Calls that come
// after it, from any process, are held to the new limits.
func (l *Limiter) Set(ctx context.Context, name string, limit Limit, and ...Limit) error {
	cmd, err := l.SetCmd(name, limit, and...)
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, cmd).Err
}

// Get returns the limits that are stored under name, at least one, or
// [ErrNotConfigured].
func (l *Limiter) Get(ctx context.Context, name string) ([]Limit, error) {
	cmd, err := l.GetCmd(name)
	if err != nil {
		return nil, err
	}
	_, limits, err := ReadLimits(l.client.Do(ctx, cmd))
	if err == nil && limits == nil {
		err = ErrNotConfigured
	}
	return limits, err
}

// Unset removes the limits that are stored under name. What was taken stays
// taken until it comes back: see [Limiter.Reset].
func (l *Limiter) Unset(ctx context.Context, name string) error {
	key, err := l.limitKey(name)
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

// limitKey returns the key of the limits that are stored under name. They are
// shared, whatever the scope of what is taken.
func (l *Limiter) limitKey(name string) (string, error) {
	if l.stored == nil {
		return "", errNotStored
	}
	return l.client.Key(name, "limit")
}

// storedCmd is cmd with the limits that are stored under name.
func (l *Limiter) storedCmd(op operation, name string, n int, lead []string) (redoubt.Cmd, error) {
	if int64(n) > maxUpTo {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at most %d", n, int64(maxUpTo))
	}
	limit, err := l.limitKey(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	keys, err := l.keys(op, []string{limit}, name)
	args := append([]string{strconv.Itoa(n)}, lead...)
	return redoubt.Cmd{Script: op.stored, Keys: keys, Args: args}, err
}

// storedLimits reads replies that come with the limits they came by. It
// remembers the last, which most are alike.
type storedLimits struct{ last atomic.Pointer[storedTerms] }

type storedTerms struct {
	text string
	terms
}

func (s *storedLimits) reply(r redoubt.Reply) (redoubt.Reply, *terms) {
	fail := func(err error) (redoubt.Reply, *terms) { return redoubt.Reply{Err: err}, nil }
	if redoubt.IsCode(r.Err, "NOTCONFIGURED") {
		return fail(ErrNotConfigured)
	}
	two, err := r.Array()
	if err != nil {
		return fail(err)
	}
	if len(two) != 2 {
		return fail(fmt.Errorf("ratelimit: reply has %d elements, want 2", len(two)))
	}
	text, err := redoubt.Reply{Val: two[1]}.Text()
	if err != nil {
		return fail(err)
	}
	t := s.last.Load()
	if t == nil || t.text != text {
		parsed, err := parseTerms(text)
		if err != nil {
			return fail(err)
		}
		t = &storedTerms{text, parsed}
		s.last.Store(t)
	}
	return redoubt.Reply{Val: two[0]}, &t.terms
}

// String returns the limits as the server keeps them: for each rate, period in
// ns and burst, which are for us, and interval and tolerance, each in seconds and
// ns, which are for the scripts.
func (t *terms) String() string {
	var words []string
	for i, l := range t.limits {
		words = append(words, strconv.Itoa(l.Rate), strconv.FormatInt(int64(l.Period), 10), strconv.Itoa(l.Burst))
		words = t.rates[i].args(words, t.rates[i].interval)
	}
	return strings.Join(words, " ")
}

func parseTerms(text string) (terms, error) {
	var limits []Limit
	words := strings.Fields(text)
	for ; len(words) >= 7; words = words[7:] {
		var n [3]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
				return terms{}, fmt.Errorf("ratelimit: stored limit: %w", err)
			}
		}
		limits = append(limits, Limit{Rate: int(n[0]), Period: time.Duration(n[1]), Burst: int(n[2])})
	}
	if len(limits) == 0 || len(words) != 0 {
		return terms{}, fmt.Errorf("ratelimit: stored limits %q are none", text)
	}
	return newTerms(limits[0], limits[1:])
}
