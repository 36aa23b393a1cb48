//go:build delayqueue

// HDT3213/delayqueue is not on every module proxy, so only a build that asks for it
// has it:
//
//	go get github.com/hdt3213/delayqueue@v1.1.0
//	go run -tags delayqueue . -suite queue

package main

import (
	"context"
	"io"
	"log"
	"time"

	"github.com/hdt3213/delayqueue"
	"github.com/redis/go-redis/v9"
)

func init() {
	queueLibraries = append(queueLibraries, queueLibrary{name: "delayqueue", open: openDelayqueue, back: 10 * time.Second})
}

type delayqueueUser struct {
	rdb   *redis.Client
	lease time.Duration
}

func openDelayqueue(addr string, lease time.Duration) (queueUser, error) {
	if lease == 0 {
		lease = 5 * time.Second // as it comes
	}
	return delayqueueUser{redis.NewClient(&redis.Options{Addr: addr}), lease}, nil
}

func (u delayqueueUser) put(ctx context.Context, payload string) error {
	return u.putAt(ctx, payload, time.Now())
}

func (u delayqueueUser) putMany(ctx context.Context, payloads []string) error {
	for _, p := range payloads {
		if err := u.put(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (u delayqueueUser) putAt(_ context.Context, payload string, at time.Time) error {
	return delayqueue.NewPublisher("q", u.rdb).SendScheduleMsg(payload, at)
}

func (u delayqueueUser) consume(workers int, handle func(string)) (func() error, error) {
	q := delayqueue.NewQueue("q", u.rdb, func(payload string) bool {
		handle(payload)
		return true
	}).WithConcurrent(uint(workers)).WithMaxConsumeDuration(u.lease).WithLogger(log.New(io.Discard, "", 0))
	done := q.StartConsume()
	return func() error {
		q.StopConsume()
		<-done
		return nil
	}, nil
}

func (u delayqueueUser) close() { _ = u.rdb.Close() }
