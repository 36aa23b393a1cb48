package attack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	_ "github.com/redoubt-go/redoubt/goredis" // the schemes of URLs
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// A library has what a victim uses of the library, through the target.
type library struct {
	clients []*redoubt.Client
	quorum  *lock.Quorum
	caches  [2]*cache.Cache[string, int] // of two clients
	leased  [2]*ratelimit.Leased         // the same
}

// burst is the tokens of a limit, which come back in an hour.
const burst = 50

// open opens the victim's clients, once.
func (v *victim) open() (*library, error) {
	if v.library != nil {
		return v.library, nil
	}
	l := &library{}
	v.library = l
	target := url.URL{Scheme: "redis", Host: v.g.r.addr}
	query := url.Values{"read_timeout": {giveUp.String()}, "dial_timeout": {giveUp.String()}}
	if v.g.r.on == encrypted {
		target.Scheme = "rediss"
		query.Set("skip_verify", "true")
	}
	if password := passwordOf(v.g.r.serve); password != "" {
		target.User = url.UserPassword("default", password)
	}
	target.RawQuery = query.Encode()
	for _, at := range []string{target.String(), target.String(), v.g.masters[0], v.g.masters[1]} {
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		c, err := redoubt.Open(ctx, at, redoubt.Options{DownAfter: giveUp})
		cancel()
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	var errs [7]error
	l.quorum, errs[0] = lock.NewQuorum([]*redoubt.Client{l.clients[0], l.clients[2], l.clients[3]}, lock.QuorumOptions{TTL: 10 * time.Minute, NoRenew: true})
	for i := range l.caches {
		l.caches[i], errs[1+i] = cache.New(l.clients[i], cache.Options[string, int]{Name: "attacked", TTL: time.Hour, Timeout: giveUp, NoBreaker: true, NoEarlyRefresh: true})
		var limiter *ratelimit.Limiter
		limiter, errs[3+i] = ratelimit.New(l.clients[i], ratelimit.Options{Limit: ratelimit.Limit{Rate: burst, Period: time.Hour, Burst: burst}})
		if limiter != nil {
			l.leased[i], errs[5+i] = ratelimit.NewLeased(limiter, ratelimit.LeasedOptions{Tokens: 10, TTL: giveUp})
		}
	}
	return l, errors.Join(errs[:]...)
}

func (l *library) close() {
	for _, c := range l.caches {
		if c != nil {
			_ = c.Close() // It has no local level.
		}
	}
	for _, held := range l.leased {
		if held != nil {
			_ = held.Close() // The tokens go with the round.
		}
	}
	for _, c := range l.clients {
		_ = c.Close()
	}
}

// call runs one call of the library and notes how long it took. It repeats the call when the server answers BUSY, as on
// does.
func (v *victim) call(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	began := time.Now()
	err := f(ctx)
	for redoubt.IsCode(err, "BUSY") && ctx.Err() == nil {
		err = f(ctx)
	}
	v.timed(1, what, began)
	if err != nil {
		return fmt.Errorf("%s after %v: %w", what, time.Since(began).Round(time.Millisecond), err)
	}
	return nil
}

// holdsQuorum contends with another for a lock on three masters. One of them is the target.
func holdsQuorum(v *victim) error {
	l, err := v.open()
	if err != nil {
		return err
	}
	const name = "quorum"
	var lease *lock.Lease
	if err := v.call("a quorum", func(ctx context.Context) (err error) {
		lease, err = l.quorum.Acquire(ctx, name)
		return err
	}); err != nil {
		return err
	}
	if err := v.holds(name, lease.Token(), false); err != nil {
		return err
	}
	_, err = v.on(0, "PING") // meanwhile a second holder would be noticed
	v.g.leaves(name, false)
	if err != nil {
		return err
	}
	return v.call("the release of a quorum", lease.Release)
}

// keepsCache changes the source and invalidates by one client; another then must not get the value before.
func keepsCache(v *victim) error {
	l, err := v.open()
	if err != nil {
		return err
	}
	load := func(context.Context, string) (int, bool, error) { return v.n, true, nil } //nolint:unparam // the source doesn't fail
	if err := v.call("Invalidate", func(ctx context.Context) error { return l.caches[v.n%2].Invalidate(ctx, v.name) }); err != nil {
		return err
	}
	for _, c := range l.caches {
		if err := v.call("Get of a cache", func(ctx context.Context) error {
			got, found, err := c.Get(ctx, v.name, load)
			if err == nil && (!found || got != v.n) {
				err = fmt.Errorf("the value is %d, found %t; want %d", got, found, v.n)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// leasesTokens takes all tokens of a limit by two holders of leases, and no more.
func leasesTokens(v *victim) error {
	l, err := v.open()
	if err != nil {
		return err
	}
	name, allowed := fmt.Sprint(v.name, v.n), 0
	for i := range 2 * burst {
		if err := v.call("a leased token", func(ctx context.Context) error {
			d, err := l.leased[i%2].Allow(ctx, name)
			if d.Allowed {
				allowed++
			}
			return err
		}); err != nil {
			return err
		}
	}
	if allowed != burst {
		return fmt.Errorf("%d tokens were allowed, of a limit of %d", allowed, burst)
	}
	return nil
}
