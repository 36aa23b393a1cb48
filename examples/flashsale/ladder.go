package main

import (
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/stock"
)

// A step is one way to sell.
type step struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Fails is how this way goes wrong; empty if it sells each bottle once.
	Fails string `json:"fails"`
	// open prepares a shop to sell in this way.
	open func(*till) (seller, error)
}

var ladder = []step{
	{"nothing", "no lock", "Buyers read the same number and write the same number back.", openNothing},
	{"mutex", "a mutex in each process", "Each process sells by itself; together they sell a bottle once for each process.", openMutex},
	{"setnx", "SETNX, EXPIRE, DEL", "A process dies between SETNX and EXPIRE: the lock stays. Or a slow payment outlives the lock, and DEL deletes the lock of the next process.", openSetNX},
	{"expire", "SET NX EX, shorter than the work", "The lock expires during a slow payment, and the next process begins.", openExpire},
	{"renewed", "SET NX EX, renewed", "A process is stopped: nobody renews its lock, and when it goes on it doesn't know.", openRenewed},
	{"lock", "lock and fence", "", openLock},
	{"stock", "stock", "", openStock},
}

// A seller sells a bottle to a buyer.
type seller interface {
	// buy takes a bottle. If it returns mustPay, pay finishes the sale.
	buy(ctx context.Context, buyer string) (outcome, error)
	pay(ctx context.Context, buyer string) (outcome, error)
}

// An outcome is the answer to a buyer.
type outcome string

const (
	sold    outcome = "sold"
	soldOut outcome = "sold out"
	mustPay outcome = "reserved: pay"
	tooLate outcome = "too late: the bottle is back on sale, and the money is paid back"
)

// errBusy is matched by the error for a buyer that waited too long for the lock.
var errBusy = errors.New("too many buyers: try again later")

// A till is what all ways of selling share.
type till struct {
	rdb                redis.UniversalClient
	name               string // of the sale
	left, orders, lock string // keys: how many bottles are left, the list of orders, the lock
	ttl                time.Duration
	charge             func(ctx context.Context) error // takes the buyer's money: the work
	acquired           func()                          // may kill this process
}

// sell is what every lock has to protect: read, work, write.
func (t *till) sell(ctx context.Context, buyer string) (outcome, error) {
	left, err := t.rdb.Get(ctx, t.left).Int()
	if err != nil || left <= 0 {
		return soldOut, err
	}
	if err := t.charge(ctx); err != nil {
		return "", err
	}
	_, err = t.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, t.left, left-1, 0)
		p.RPush(ctx, t.orders, buyer)
		return nil
	})
	return sold, err
}

// poll calls try until it gets the lock or the bottles are sold out. A buyer waits for three TTLs.
func (t *till) poll(ctx context.Context, try func() (bool, error)) (out outcome, err error) {
	for end := time.Now().Add(3 * t.ttl); time.Now().Before(end); {
		if left, err := t.rdb.Get(ctx, t.left).Int(); err != nil || left <= 0 {
			return soldOut, err
		}
		if ok, err := try(); ok || err != nil {
			return "", err
		}
		select {
		case <-time.After(20*time.Millisecond + mrand.N(40*time.Millisecond)):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errBusy
}

// oneStep is embedded by sellers that take the money when they take the bottle.
type oneStep struct{ *till }

func (oneStep) pay(context.Context, string) (outcome, error) {
	return "", errors.New("this shop takes the money at once")
}

// No lock.

type nothing struct{ oneStep }

func openNothing(t *till) (seller, error) { return nothing{oneStep{t}}, nil }

func (s nothing) buy(ctx context.Context, buyer string) (outcome, error) {
	s.acquired()
	return s.sell(ctx, buyer)
}

// A mutex in each process.

type inProcess struct {
	oneStep
	mu sync.Mutex
}

func openMutex(t *till) (seller, error) { return &inProcess{oneStep: oneStep{t}}, nil }

func (s *inProcess) buy(ctx context.Context, buyer string) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquired()
	return s.sell(ctx, buyer)
}

// SETNX, EXPIRE, DEL: three commands where one would do.

type setNX struct{ oneStep }

func openSetNX(t *till) (seller, error) { return setNX{oneStep{t}}, nil }

func (s setNX) buy(ctx context.Context, buyer string) (outcome, error) {
	out, err := s.poll(ctx, func() (bool, error) {
		return s.rdb.SetNX(ctx, s.lock, 1, 0).Result()
	})
	if out != "" || err != nil {
		return out, err
	}
	s.acquired() // a process that dies here leaves a lock without an end
	s.rdb.PExpire(ctx, s.lock, s.ttl)
	defer s.rdb.Del(ctx, s.lock) // whoever holds it by now
	return s.sell(ctx, buyer)
}

// SET NX EX with a random value, deleted only by its owner. It holds for as long as the work is quick.

var deleteOwn = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

type expire struct{ oneStep }

func openExpire(t *till) (seller, error) { return expire{oneStep{t}}, nil }

func (s expire) buy(ctx context.Context, buyer string) (outcome, error) {
	owner := rand.Text()
	out, err := s.poll(ctx, func() (bool, error) {
		return s.rdb.SetNX(ctx, s.lock, owner, s.ttl).Result()
	})
	if out != "" || err != nil {
		return out, err
	}
	defer deleteOwn.Run(ctx, s.rdb, []string{s.lock}, owner)
	s.acquired()
	return s.sell(ctx, buyer)
}

// The same, renewed by a goroutine while the work lasts.

var renewOwn = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)

type renewed struct{ oneStep }

func openRenewed(t *till) (seller, error) { return renewed{oneStep{t}}, nil }

func (s renewed) buy(ctx context.Context, buyer string) (outcome, error) {
	owner := rand.Text()
	out, err := s.poll(ctx, func() (bool, error) {
		return s.rdb.SetNX(ctx, s.lock, owner, s.ttl).Result()
	})
	if out != "" || err != nil {
		return out, err
	}
	defer deleteOwn.Run(ctx, s.rdb, []string{s.lock}, owner)
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for tick := time.Tick(s.ttl / 3); ; {
			select {
			case <-tick:
				renewOwn.Run(renewing, s.rdb, []string{s.lock}, owner, s.ttl.Milliseconds())
			case <-renewing.Done():
				return
			}
		}
	}()
	s.acquired()
	return s.sell(ctx, buyer)
}

// Package lock, with package fence for the writes: a holder that was stopped and has lost the lock can't
// write any more. Waiters are woken and don't poll.

type locked struct {
	oneStep
	locks *lock.Mutex
	guard *fence.Guard
}

func openLock(t *till) (seller, error) {
	client, err := wrap(t.rdb)
	if err != nil {
		return nil, err
	}
	locks, err := lock.New(client, lock.Options{TTL: t.ttl})
	if err != nil {
		return nil, err
	}
	guard, err := fence.New(client, fence.Options{})
	return locked{oneStep{t}, locks, guard}, err
}

func (s locked) buy(ctx context.Context, buyer string) (outcome, error) {
	// When everything is sold, nobody needs the lock.
	if left, err := s.rdb.Get(ctx, s.left).Int(); err != nil || left <= 0 {
		return soldOut, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, 3*s.ttl, errBusy)
	lease, err := s.locks.Acquire(waiting, s.name)
	if err != nil && waiting.Err() != nil {
		err = context.Cause(waiting)
	}
	cancel()
	if err != nil {
		return "", err
	}
	defer lease.Release(context.WithoutCancel(ctx)) //nolint:errcheck // a lost lease matters at the writes
	s.acquired()
	ctx = lease.Context(ctx) // ends with the lease, if this process runs

	// From here on no earlier holder can write, so the number that is read stays true.
	if err := s.guard.Accept(ctx, s.name, lease.Token()); err != nil {
		return "", err
	}
	left, err := s.rdb.Get(ctx, s.left).Int()
	if err != nil || left <= 0 {
		return soldOut, err
	}
	if err := s.charge(ctx); err != nil {
		return "", err
	}
	_, err = s.guard.DoMany(ctx, s.name, lease.Token(), []redoubt.Cmd{
		{Name: "SET", Keys: []string{s.left}, Args: []string{strconv.Itoa(left - 1)}},
		{Name: "RPUSH", Keys: []string{s.orders}, Args: []string{buyer}},
	})
	if err != nil { // another shop had the lock meanwhile, and nothing was written
		return tooLate, err
	}
	return sold, nil
}

// Package stock: reserve, pay, commit. No lock, so nobody waits for another buyer's payment. The buyer is
// the ID of the reservation, so that a second click, or a second try at another shop, takes no second
// bottle. A reservation that is not paid in time is back on sale.

type stocked struct {
	*till
	items *stock.Inventory
	// refuse is until when this shop refuses buyers by itself, in nanoseconds since 1970: when it was
	// sold out, nothing can be free before that.
	refuse atomic.Int64
	forget time.Duration // the longest that a shop refuses without asking
}

func openStock(t *till) (seller, error) {
	client, err := wrap(t.rdb)
	if err != nil {
		return nil, err
	}
	items, err := stock.New(client, stock.Options{TTL: 5 * t.ttl})
	return &stocked{till: t, items: items, forget: t.ttl / 10}, err
}

func (s *stocked) buy(ctx context.Context, buyer string) (outcome, error) {
	// Most buyers come too late. This shop refuses them without asking the server again, at most for a
	// tenth of a second, because a cancelled reservation can be free before Shortage.Next.
	if time.Now().UnixNano() < s.refuse.Load() {
		return soldOut, nil
	}
	_, short, err := s.items.ReserveRequest(ctx, s.name, stock.Request{N: 1, ID: buyer})
	switch {
	case errors.Is(err, stock.ErrCommitted): // this buyer has a bottle already: the same answer again
		return sold, nil
	case errors.Is(err, stock.ErrExpired):
		return tooLate, nil
	case err != nil:
		return "", err
	case short != nil:
		wait := s.forget
		if short.Reserved > 0 {
			wait = min(wait, short.Next)
		}
		s.refuse.Store(time.Now().Add(wait).UnixNano())
		return soldOut, nil
	}
	s.acquired()
	return mustPay, nil
}

func (s *stocked) pay(ctx context.Context, buyer string) (outcome, error) {
	if err := s.charge(ctx); err != nil {
		return "", err
	}
	err := s.items.Commit(ctx, s.name, buyer)
	if errors.Is(err, stock.ErrExpired) {
		return tooLate, nil
	}
	return sold, err
}

// wrap gives the program's own Redis client to Redoubt.
func wrap(rdb redis.UniversalClient) (*redoubt.Client, error) {
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		return nil, err
	}
	return redoubt.New(conn, redoubt.Options{})
}
