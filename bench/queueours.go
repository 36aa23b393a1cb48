package main

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/queue"
)

// ourQueue is package queue.
type ourQueue struct {
	client *redoubt.Client
	conn   *goredis.Client
	queue  *queue.Queue[[]byte]
}

func openOurQueue(addr string, lease time.Duration) (queueUser, error) {
	conn, err := goredis.Open(context.Background(), "redis://"+addr)
	if err != nil {
		return nil, err
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return nil, err
	}
	q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}, Lease: lease})
	return &ourQueue{client, conn, q}, err
}

const queueName = "q"

func (u *ourQueue) put(ctx context.Context, payload string) error {
	_, err := u.queue.Put(ctx, queueName, []byte(payload))
	return err
}

func (u *ourQueue) putMany(ctx context.Context, payloads []string) error {
	requests := make([]queue.Request[[]byte], len(payloads))
	for i, p := range payloads {
		requests[i].Value = []byte(p)
	}
	_, err := u.queue.PutMany(ctx, queueName, requests)
	return err
}

func (u *ourQueue) putAt(ctx context.Context, payload string, at time.Time) error {
	_, err := u.queue.PutRequest(ctx, queueName, queue.Request[[]byte]{Value: []byte(payload), At: at})
	return err
}

func (u *ourQueue) consume(workers int, handle func(string)) (func() error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- u.queue.Run(ctx, queueName, func(_ context.Context, d *queue.Delivery[[]byte]) error {
			handle(string(d.Value))
			return nil
		}, queue.RunOptions{Concurrency: workers})
	}()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

func (u *ourQueue) close() {
	_ = u.client.Close()
	_ = u.conn.Close()
}
