package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// The ways in which a peer is set up.
const (
	asItComes = "as it comes"
	pipelined = "on a client that pipelines"
	rawCalls  = "our scripts, called raw"
)

const lockTTL = 30 * time.Second

// A locker is a library for locks. acquire returns the function that releases the lock.
type locker struct {
	name, class string
	acquire     func(ctx context.Context, name string) (release func(ctx context.Context) error, err error)
	close       func()
}

// newLockers returns ours, which is first, and the peers.
func newLockers(p *peers) ([]locker, error) {
	locks, err := lock.New(p.ours, lock.Options{TTL: lockTTL})
	if err != nil {
		return nil, err
	}
	ours := func(ctx context.Context, name string) (func(context.Context) error, error) {
		lease, busy, err := locks.TryAcquire(ctx, name)
		if busy != nil {
			err = errors.New("busy")
		}
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
	viaRedislock := func(c redislock.RedisClient) func(context.Context, string) (func(context.Context) error, error) {
		l := redislock.New(c)
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			got, err := l.Obtain(ctx, name, lockTTL, nil)
			if err != nil {
				return nil, err
			}
			return got.Release, nil
		}
	}
	viaRedsync := func(c redis.UniversalClient) func(context.Context, string) (func(context.Context) error, error) {
		rs := redsync.New(redsyncredis.NewPool(c))
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(lockTTL))
			return func(ctx context.Context) error {
				_, err := m.UnlockContext(ctx)
				return err
			}, m.LockContext(ctx)
		}
	}
	all := []locker{
		{name: "redoubt/lock", acquire: ours},
		{name: "redislock", class: asItComes, acquire: viaRedislock(p.plain)},
		{name: "redsync", class: asItComes, acquire: viaRedsync(p.plain)},
		{name: "redislock on AutoPipeline", class: pipelined, acquire: viaRedislock(p.auto)},
		{name: "redsync on AutoPipeline", class: pipelined, acquire: viaRedsync(p.auto)},
	}
	// By default it acquires two of three keys, for independent servers; on one server, one key is
	// its best mode. Its client pipelines by itself. A lease takes 5 s, and a goroutine for each key
	// renews it.
	for _, r := range []struct {
		name, class string
		majority    int32
	}{{"rueidislock", asItComes, 0}, {"rueidislock, majority 1", pipelined, 1}} {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{p.addr}},
			KeyPrefix:    "rueidislock" + strconv.Itoa(int(r.majority)), KeyMajority: r.majority,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, locker{name: r.name, class: r.class, close: l.Close, acquire: func(ctx context.Context, name string) (func(context.Context) error, error) {
			_, cancel, err := l.WithContext(ctx, name)
			return func(context.Context) error {
				cancel()
				return nil
			}, err
		}})
	}
	for _, raw := range []struct {
		name string
		do   func(context.Context, redoubt.Cmd) (string, error)
	}{
		{"redoubt/lock's scripts by go-redis", evalSHA(p.plain)},
		{"redoubt/lock's scripts by AutoPipeline", evalSHA(p.auto)},
		{"redoubt/lock's scripts by Client.Do", func(ctx context.Context, cmd redoubt.Cmd) (string, error) {
			r := p.ours.Do(ctx, cmd)
			return "", r.Err
		}},
	} {
		all = append(all, locker{name: raw.name, class: rawCalls, acquire: func(ctx context.Context, name string) (func(context.Context) error, error) {
			keys, err := wire.Keys(p.ours, name)
			if err != nil {
				return nil, err
			}
			id := wire.NewID()
			_, err = raw.do(ctx, wire.AcquireCmd(keys, wire.Request{ID: id, TTL: lockTTL}))
			return func(ctx context.Context) error {
				_, err := raw.do(ctx, wire.ReleaseCmd(keys, id, "", false))
				return err
			}, err
		}})
	}
	return all, nil
}

// evalSHA runs our commands on go-redis alone, without this library.
func evalSHA(c redis.Scripter) func(context.Context, redoubt.Cmd) (string, error) {
	return func(ctx context.Context, cmd redoubt.Cmd) (string, error) {
		args := make([]any, len(cmd.Args))
		for i, a := range cmd.Args {
			args[i] = a
		}
		return "", c.EvalSha(ctx, cmd.Script.Digest(), cmd.Keys, args...).Err()
	}
}

// benchLocks measures pairs of lock and unlock. Each caller has a name of its own.
func benchLocks(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	lockers, err := newLockers(p)
	if err != nil {
		return err
	}
	var cs []contender
	for i, l := range lockers {
		if l.close != nil {
			defer l.close()
		}
		names := make([]string, 256)
		for caller := range names {
			names[caller] = fmt.Sprint(i, ":", caller)
		}
		cs = append(cs, contender{name: l.name, class: l.class, op: func(ctx context.Context, caller int) error {
			release, err := l.acquire(ctx, names[caller])
			if err != nil {
				return err
			}
			return release(ctx)
		}})
	}
	cs = append(cs, contender{name: "redoubt/lock, ctx can end", op: cs[0].op, canEnd: true})
	if err := cs[0].op(ctx, 0); err != nil { // our scripts are loaded for the raw calls
		return err
	}
	if !cfg.isBrief() {
		if err := cfg.scriptTimes(ctx, p.admin, lockers); err != nil {
			return err
		}
	}
	for _, callers := range cfg.callers {
		if _, err := cfg.compare(ctx, "lock", redisMeter(p.admin), callers, cs); err != nil {
			return err
		}
	}
	return cfg.reenter(ctx, p)
}

// reenter measures entering and leaving a lock that the caller holds, with a call of Token.
func (c config) reenter(ctx context.Context, p *peers) error {
	locks, err := lock.New(p.ours, lock.Options{TTL: lockTTL})
	if err != nil {
		return err
	}
	lease, err := locks.Acquire(ctx, "entered")
	if err != nil {
		return err
	}
	_, err = c.compare(ctx, "re-entry", redisMeter(p.admin), 1, []contender{{name: "redoubt/lock, Enter and Token", op: func(ctx context.Context, _ int) error {
		leave, err := lease.Enter()
		if err != nil {
			return err
		}
		if lease.Token() == 0 {
			return errors.New("no token")
		}
		return leave(ctx)
	}}})
	return errors.Join(err, lease.Release(ctx))
}
