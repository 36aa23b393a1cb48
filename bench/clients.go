package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
)

// peers are the clients of one measurement: each library has a go-redis client
// of its own with the defaults that its documentation uses, and one that merges
// commands by itself (experimental in go-redis), its best mode.
type peers struct {
	addr  string // of the server
	admin *redis.Client
	ours  *redoubt.Client
	plain *redis.Client
	auto  *redis.AutoPipeliner
	close func()
}

// startPeers starts a redis-server and makes clients of it, whose close stops it too.
func startPeers(ctx context.Context) (*peers, error) {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	p, err := newPeers(ctx, server.addr)
	if err != nil {
		stop()
		return nil, err
	}
	closeClients := p.close
	p.close = func() {
		closeClients()
		stop()
	}
	return p, nil
}

func newPeers(ctx context.Context, addr string) (*peers, error) {
	open := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }
	p := &peers{addr: addr, admin: open(), plain: open()}
	autoBase := open()
	mine, err := goredis.Open(ctx, "redis://"+addr)
	if err != nil {
		return nil, err
	}
	if p.ours, err = redoubt.New(mine, redoubt.Options{}); err != nil {
		return nil, err
	}
	if p.auto, err = autoBase.AutoPipeline(); err != nil {
		return nil, err
	}
	p.close = func() {
		_ = p.ours.Close()
		_ = p.auto.Close()
		for _, c := range []*redis.Client{p.admin, p.plain, autoBase} {
			_ = c.Close()
		}
		_ = mine.Close()
	}
	return p, nil
}
