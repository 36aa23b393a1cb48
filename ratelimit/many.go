package ratelimit

import (
	"context"

	"github.com/redoubt-go/redoubt"
)

// A Request is one call of [Limiter.AllowMany].
type Request struct {
	Name string
	// N is how many tokens to take, all or none; 0 takes nothing.
	N int
}

// A Result is the answer to one [Request], as of [Limiter.AllowN].
type Result struct {
	Decision
	Err error
}

// AllowMany does what [Limiter.AllowN] does for each of the requests, and returns one
// Result for each, in order. Each request is decided by itself, after the requests
// before it: a refusal or an error changes nothing for the others. It costs one round
// trip to each server that the names are on.
func (l *Limiter) AllowMany(ctx context.Context, requests []Request) []Result {
	results := make([]Result, len(requests))
	cmds := make([]redoubt.Cmd, 0, len(requests))
	sent := make([]int, 0, len(requests)) // the request of each command
	for i, q := range requests {
		cmd, err := l.wire.TakeCmd(q.Name, q.N)
		if err != nil {
			results[i].Err = err
			continue
		}
		cmds, sent = append(cmds, cmd), append(sent, i)
	}
	if len(cmds) == 0 {
		return results
	}
	var replies []redoubt.Reply
	err := l.reach(ctx, func(ctx context.Context) error {
		replies = l.client.Pipeline(ctx, cmds)
		return nil
	})
	for k, i := range sent {
		reply := redoubt.Reply{Err: err}
		if err == nil {
			reply = replies[k]
		}
		d, err := l.wire.ReadTake(reply, requests[i].N)
		results[i].Decision, results[i].Err = decision(d), err
		if err := results[i].Err; err != nil {
			results[i].Decision, results[i].Err = l.failed(ctx, requests[i].Name, requests[i].N, err)
		}
		_, _ = reported(ctx, l.client, requests[i].Name, requests[i].N, results[i].Decision, results[i].Err)
	}
	return results
}
