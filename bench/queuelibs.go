package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A queueLibrary is a library that the suite "queue" measures.
type queueLibrary struct {
	name string
	// open sets it up with a lease, or with the library's own if that is 0.
	open func(addr string, lease time.Duration) (queueUser, error)
	// back is how long the message of a killed consumer can take to come back; 0: it never
	// does.
	back time.Duration
}

// A queueUser has the clients of one library on one server, set up as its
// documentation says.
type queueUser interface {
	put(ctx context.Context, payload string) error
	// putMany is the library's best way to put many, or nil.
	putMany(ctx context.Context, payloads []string) error
	// putAt puts a message that is due later, or returns errors.ErrUnsupported.
	putAt(ctx context.Context, payload string, at time.Time) error
	// consume starts workers that handle messages until stop is called. stop returns when they
	// have ended.
	consume(workers int, handle func(payload string)) (stop func() error, err error)
	close()
}

// killLease is the lease of messages whose consumer is killed, if the library can set it.
const killLease = 2 * time.Second

// queueLibraries are the libraries of the suite "queue"; ours is first. A build with the
// tag delayqueue adds HDT3213/delayqueue.
var queueLibraries = []queueLibrary{
	{name: "redoubt/queue", open: openOurQueue, back: killLease + time.Second},
	{name: "asynq", open: openAsynq, back: 3 * time.Minute},
	{name: "LPUSH, BRPOP", open: openBareList},
}

type asynqUser struct {
	opt    asynq.RedisClientOpt
	client *asynq.Client
}

func openAsynq(addr string, _ time.Duration) (queueUser, error) {
	opt := asynq.RedisClientOpt{Addr: addr}
	return &asynqUser{opt, asynq.NewClient(opt)}, nil
}

func (u *asynqUser) put(ctx context.Context, payload string) error {
	_, err := u.client.EnqueueContext(ctx, asynq.NewTask("t", []byte(payload)))
	return err
}

func (u *asynqUser) putMany(ctx context.Context, payloads []string) error {
	for _, p := range payloads {
		if err := u.put(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (u *asynqUser) putAt(ctx context.Context, payload string, at time.Time) error {
	_, err := u.client.EnqueueContext(ctx, asynq.NewTask("t", []byte(payload)), asynq.ProcessAt(at))
	return err
}

func (u *asynqUser) consume(workers int, handle func(string)) (func() error, error) {
	server := asynq.NewServer(u.opt, asynq.Config{Concurrency: workers, LogLevel: asynq.FatalLevel})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		handle(string(t.Payload()))
		return nil
	}))
	return func() error {
		server.Shutdown()
		return nil
	}, err
}

func (u *asynqUser) close() { _ = u.client.Close() }

// bareList is no queue: a popped message is lost with its consumer. It is an upper bound: no queue
// on Redis can be faster.
type bareList struct{ rdb *redis.Client }

const bareKey = "list"

func openBareList(addr string, _ time.Duration) (queueUser, error) {
	return bareList{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 100})}, nil
}

func (u bareList) put(ctx context.Context, payload string) error {
	return u.rdb.LPush(ctx, bareKey, payload).Err()
}

func (u bareList) putMany(ctx context.Context, payloads []string) error {
	return u.rdb.LPush(ctx, bareKey, payloads).Err()
}

func (u bareList) putAt(context.Context, string, time.Time) error { return errors.ErrUnsupported }

func (u bareList) consume(workers int, handle func(string)) (func() error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := u.rdb.BRPop(ctx, 10*time.Second, bareKey).Result()
				switch {
				case err == nil:
					handle(got[1])
				case !errors.Is(err, redis.Nil) && ctx.Err() == nil:
					errs[i] = err
					return
				}
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		return errors.Join(errs...)
	}, nil
}

func (u bareList) close() { _ = u.rdb.Close() }
