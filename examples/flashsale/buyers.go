package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// clickTwice and walkAway: one buyer in so many clicks twice, and one does not pay if the shop lets it.
const (
	clickTwice = 10
	walkAway   = 10
)

// A crowd is the buyers of one sale.
type crowd struct {
	address func(shop int) string // of a shop; empty while it is down
	shops   int
	client  *http.Client

	served, refused, failed atomic.Int64 // buyers
	lastAnswer, lastSale    atomic.Int64 // nanoseconds since 1970: of a sale or a refusal, of a sale
	mu                      sync.Mutex
	times                   []time.Duration // of all answered requests, guarded by mu
	turned                  []int           // refused buyers, guarded by mu
	have                    map[int]bool    // buyers with a bottle, guarded by mu
	allPay                  atomic.Bool     // nobody walks away any more
}

func newCrowd(shops, concurrency int, timeout time.Duration, address func(int) string) *crowd {
	c := &crowd{address: address, shops: shops, have: map[int]bool{}, client: &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: 2 * concurrency, MaxIdleConns: 0},
	}}
	c.lastAnswer.Store(time.Now().UnixNano())
	return c
}

// come lets the buyers come, so many at a time, until all are served or ctx ends.
func (c *crowd) come(ctx context.Context, buyers []int, concurrency int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(buyers) && ctx.Err() == nil; i = next.Add(1) - 1 {
				c.serve(ctx, buyers[i])
			}
		})
	}
	wg.Wait()
}

// serve is one buyer.
func (c *crowd) serve(ctx context.Context, buyer int) {
	defer c.served.Add(1)
	var second outcome
	var wg sync.WaitGroup
	if buyer%clickTwice == 0 {
		wg.Go(func() { second = c.buy(ctx, buyer, buyer+1) })
	}
	outs := []outcome{c.buy(ctx, buyer, buyer)}
	wg.Wait()
	outs = append(outs, second)
	switch {
	case slices.Contains(outs, sold), slices.Contains(outs, mustPay):
	case slices.Contains(outs, soldOut), slices.Contains(outs, tooLate):
		c.refused.Add(1)
		c.mu.Lock()
		c.turned = append(c.turned, buyer)
		c.mu.Unlock()
	default:
		c.failed.Add(1)
	}
}

// buy is one click: at the shop, or at the next ones if that breaks. It returns an empty outcome after an
// error.
func (c *crowd) buy(ctx context.Context, buyer, shop int) outcome {
	out := c.ask(ctx, "/buy", buyer, shop)
	if out == mustPay && (buyer%walkAway != walkAway/2 || c.allPay.Load()) {
		out = c.ask(ctx, "/pay", buyer, shop)
	}
	return out
}

func (c *crowd) ask(ctx context.Context, path string, buyer, shop int) outcome {
	for try := range 5 {
		if try > 0 {
			select {
			case <-time.After(time.Duration(try) * 50 * time.Millisecond):
			case <-ctx.Done():
				return ""
			}
		}
		address := c.address((shop + try) % c.shops)
		if address == "" {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path+"?buyer="+strconv.Itoa(buyer), nil)
		if err != nil {
			return ""
		}
		begin := time.Now()
		resp, err := c.client.Do(req) //nolint:gosec // a shop of ours
		if err != nil {
			continue // the shop is gone: a buyer asks again
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // only read
		if err != nil {
			continue
		}
		took := time.Since(begin)
		c.mu.Lock()
		c.times = append(c.times, took)
		if resp.StatusCode == http.StatusOK {
			c.have[buyer] = true
		}
		c.mu.Unlock()
		now := time.Now().UnixNano()
		switch resp.StatusCode {
		case http.StatusOK:
			c.lastSale.Store(now)
			c.lastAnswer.Store(now)
			return sold
		case http.StatusAccepted:
			c.lastAnswer.Store(now)
			return mustPay
		case http.StatusConflict:
			c.lastAnswer.Store(now)
			return soldOut
		case http.StatusGone:
			return tooLate
		default:
			return ""
		}
	}
	return ""
}

// quantiles returns the times within which half of all answers came, and 99 % of them.
func (c *crowd) quantiles() (p50, p99 time.Duration) {
	c.mu.Lock()
	times := slices.Clone(c.times)
	c.mu.Unlock()
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

// happy is how many buyers were told that they have a bottle.
func (c *crowd) happy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.have)
}

// turnedAway returns the refused buyers so far.
func (c *crowd) turnedAway() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.turned)
}
