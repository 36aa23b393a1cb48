package torture

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/geo"
	_ "github.com/redoubt-go/redoubt/goredis" // the schemes of URLs
	"github.com/redoubt-go/redoubt/hll"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// A library is the door of Go programs.
type library struct {
	client   *redoubt.Client
	masters  []*redoubt.Client // of majority
	majority *lock.Quorum
	mutex    *lock.Mutex
	inOrder  *lock.Mutex
	permits  *lock.Semaphore
	guard    *fence.Guard
	items    *stock.Inventory
	limiter  *ratelimit.Limiter
	messages *queue.Queue[string]
	fields   *ttlhash.Hashes
	bits     *bitmap.Maps
	filters  *bloom.Filters
	pages    *hll.Visitors
	indexes  *geo.Indexes
	cached   *cache.Cache[string, int64]
	kept     *cache.Cache[string, int64] // the same cache with a local level
}

// openLibrary opens a client, and one for each master of a Quorum; renew says whether its leases are renewed.
func openLibrary(ctx context.Context, url string, renew bool, masters ...string) (_ *library, err error) {
	client, err := redoubt.Open(ctx, url, redoubt.Options{})
	if err != nil {
		return nil, err
	}
	l := &library{client: client}
	defer func() {
		if err != nil {
			l.closeClients()
		}
	}()
	for _, url := range masters {
		master, err := redoubt.Open(ctx, url, redoubt.Options{})
		if err != nil {
			return nil, err
		}
		l.masters = append(l.masters, master)
	}
	if len(masters) > 0 {
		if l.majority, err = lock.NewQuorum(l.masters, lock.QuorumOptions{TTL: lockTTL, NoRenew: !renew}); err != nil {
			return nil, err
		}
	}
	var errs [14]error
	l.mutex, errs[0] = lock.New(client, lock.Options{TTL: lockTTL, NoRenew: !renew})
	l.guard, errs[1] = fence.New(client, fence.Options{})
	l.items, errs[2] = stock.New(client, stock.Options{TTL: stockTTL})
	l.limiter, errs[3] = ratelimit.New(client, ratelimit.Options{Limit: ratelimit.Limit{Rate: limitRate, Period: time.Second, Burst: limitBurst}})
	l.messages, errs[4] = queue.New[string](client, queue.Options{Lease: queueLease, Attempts: manyAttempts, Backoff: queue.Constant(20 * time.Millisecond)})
	l.inOrder, errs[5] = lock.New(client, lock.Options{TTL: lockTTL, NoRenew: !renew, Fair: true})
	l.permits, errs[6] = lock.NewSemaphore(client, lock.SemaphoreOptions{TTL: lockTTL, NoRenew: !renew})
	l.fields, errs[7] = ttlhash.New(client, ttlhash.Options{})
	l.bits, errs[8] = bitmap.New(client, bitmap.Options{})
	l.filters, errs[9] = bloom.New(client, bloom.Options{})
	options := cache.Options[string, int64]{Name: cacheName, TTL: time.Minute, NoBreaker: true}
	l.cached, errs[10] = cache.New(client, options)
	options.Local, options.LocalTTL = 1000, localTTL
	l.kept, errs[11] = cache.New(client, options)
	l.pages, errs[12] = hll.New(client, hll.Options{})
	l.indexes, errs[13] = geo.New(client, geo.Options{})
	return l, errors.Join(errs[:]...)
}

func (l *library) resends() bool { return true }

func (l *library) close() {
	_ = l.cached.Close() // Their errors are of the end of a process.
	_ = l.kept.Close()
	_ = l.pages.Close()
	l.closeClients()
}

func (l *library) closeClients() {
	for _, c := range l.masters {
		_ = c.Close()
	}
	_ = l.client.Close()
}

// sent marks the errors of calls that the library did not send.
func sent(err error) error {
	if errors.Is(err, redoubt.ErrUnavailable) && !errors.Is(err, redoubt.ErrUnknownOutcome) {
		return errors.Join(errNever, err)
	}
	return err
}

func (l *library) acquire(ctx context.Context, primitive, name string, wait bool) (*holding, error) {
	acquire := map[string]func(ctx context.Context, name string) (*lock.Lease, error){
		locks: l.mutex.Acquire, fair: l.inOrder.Acquire, quorums: l.majority.Acquire,
		semaphores: func(ctx context.Context, name string) (*lock.Lease, error) {
			return l.permits.Acquire(ctx, name, semaphoreLimit)
		},
	}[primitive]
	try := map[string]func(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error){
		locks: l.mutex.TryAcquire, fair: l.inOrder.TryAcquire, quorums: l.majority.TryAcquire,
		semaphores: func(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
			return l.permits.TryAcquire(ctx, name, semaphoreLimit)
		},
	}[primitive]
	var held *lock.Lease
	var err error
	if wait {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		held, err = acquire(within, name)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			return nil, nil // its patience is over: others have the lock, or nobody answers
		}
	} else {
		held, _, err = try(ctx, name)
	}
	if err != nil || held == nil {
		return nil, sent(err)
	}
	return &holding{
		token: held.Token(), deadline: held.Deadline, done: held.Done(),
		extend: func(ctx context.Context) error { return held.Extend(ctx, lockTTL) },
		release: func(ctx context.Context) error {
			err := held.Release(ctx)
			if errors.Is(err, lock.ErrTaken) {
				return nil
			}
			if primitive == quorums { // Some masters may have got it.
				return err
			}
			return sent(err)
		},
	}, nil
}

func (l *library) holder(ctx context.Context, name string) (token, waiters int64, err error) {
	info, err := l.mutex.Info(ctx, name)
	if err != nil || len(info.Holders) == 0 {
		return 0, info.Waiters, err
	}
	return info.Holders[0].Token, info.Waiters, nil
}

func registerKey(name string) string { return "rd:{" + name + "}:register" }

func (l *library) write(ctx context.Context, name string, token, value int64) (bool, int64, error) {
	err := l.guard.Do(ctx, name, token, redoubt.Cmd{Name: "SET", Keys: []string{registerKey(name)}, Args: []string{strconv.FormatInt(value, 10)}}).Err
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		return false, stale.Current, nil
	}
	return true, 0, sent(err)
}

func (l *library) read(ctx context.Context, name string) (int64, error) {
	r := l.client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{registerKey(name)}, Flags: redoubt.ReadOnly})
	if r.Err == nil && r.IsNil() {
		return 0, nil
	}
	text, err := r.Text()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (l *library) total(ctx context.Context, name string, n int64) (int64, error) {
	info, err := l.items.Set(ctx, name, n)
	return info.Available, sent(err)
}

func (l *library) reserve(ctx context.Context, name, id string, n int64) (wire.Status, error) {
	r, short, err := l.items.ReserveRequest(ctx, name, stock.Request{ID: id, N: n})
	switch {
	case r != nil:
		return wire.Reserved, nil
	case short != nil:
		return wire.None, nil
	}
	return wire.None, err // Its repetition may say that it is over: so nothing is known of the first call.
}

func (l *library) commit(ctx context.Context, name, id string) (wire.Status, error) {
	return settledAs(wire.Committed, l.items.Commit(ctx, name, id))
}

func (l *library) cancel(ctx context.Context, name, id string) (wire.Status, error) {
	return settledAs(wire.Cancelled, l.items.Cancel(ctx, name, id))
}

// settledAs returns how a reservation ended.
func settledAs(wanted wire.Status, err error) (wire.Status, error) {
	switch {
	case errors.Is(err, stock.ErrCommitted):
		return wire.Committed, nil
	case errors.Is(err, stock.ErrCancelled):
		return wire.Cancelled, nil
	case errors.Is(err, stock.ErrExpired):
		return wire.Expired, nil
	case errors.Is(err, stock.ErrNotFound):
		return wire.None, nil
	}
	return wanted, sent(err)
}

func (l *library) count(ctx context.Context, name string) (int64, int64, error) {
	info, err := l.items.Info(ctx, name)
	return info.Available, info.Sold, err
}

func (l *library) ask(ctx context.Context, name string) (bool, error) {
	d, err := l.limiter.Allow(ctx, name)
	return d.Allowed, sent(err)
}

func (l *library) put(ctx context.Context, name, id string) error {
	_, err := l.messages.PutRequest(ctx, name, queue.Request[string]{ID: id, Value: id})
	return sent(err)
}

var errAgain = errors.New("the handler wants the message again")

func (l *library) consume(ctx context.Context, w *worker, name string) {
	rng := w.random(queues)
	_ = l.messages.Run(ctx, name, func(_ context.Context, d *queue.Delivery[string]) error {
		// When it was taken is not known here: some time before.
		w.pen.note(event{Primitive: queues, Name: name, What: took, ID: d.ID, Call: 1, Return: now()})
		if rng.IntN(8) == 0 {
			return errAgain
		}
		w.pen.begin(event{Primitive: queues, Name: name, What: acked, ID: d.ID})
		w.worked(queues)
		return nil
	}, queue.RunOptions{Concurrency: 1, Grace: queue.NoGrace}) // It ends with ctx.
}

func (l *library) kinds() []string { return []string{aField, aBit, anItem} }

var filterSpec = bloom.Spec{Capacity: 10_000, ErrorRate: 0.001}

func (l *library) add(ctx context.Context, kind, name string, n int64) (err error) {
	text := strconv.FormatInt(n, 10)
	switch kind {
	case aField:
		err = l.fields.Set(ctx, name, text, text, time.Hour)
	case aBit:
		_, err = l.bits.Set(ctx, name, uint64(n))
	default:
		f, ferr := l.filters.Open(ctx, name, filterSpec)
		if ferr != nil {
			return errors.Join(errNever, ferr)
		}
		_, err = f.Add(ctx, text)
	}
	return sent(err)
}

func (l *library) has(ctx context.Context, kind, name string, n int64) (ok bool, err error) {
	text := strconv.FormatInt(n, 10)
	switch kind {
	case aField:
		_, ok, err = l.fields.Get(ctx, name, text)
	case aBit:
		ok, err = l.bits.Get(ctx, name, uint64(n))
	default:
		f, ferr := l.filters.Open(ctx, name, filterSpec)
		if ferr != nil {
			return false, ferr
		}
		ok, err = f.MayContain(ctx, text)
	}
	return ok, err
}
