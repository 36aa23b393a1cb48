//go:build !quick

package tests

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func open(t *testing.T, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRueidis: rueidis pipelines everything over few connections, in RESP3,
// with client-side caching on.
func TestRueidis(t *testing.T) {
	addr := serve(t)
	c := open(t, rueidis.ClientOption{InitAddress: []string{addr}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			key := "k" + strconv.Itoa(i)
			for j := range 50 {
				want := strconv.Itoa(i*1000 + j)
				if err := c.Do(ctx, c.B().Set().Key(key).Value(want).Build()).Error(); err != nil {
					t.Error(err)
					return
				}
				if got, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); got != want || err != nil {
					t.Errorf("GET %s: %q %v, want %s", key, got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()

	reply, err := c.Do(ctx, c.B().Arbitrary("LOCK.ACQUIRE").Keys("l").Args("60000").Build()).ToArray()
	if err != nil || len(reply) != 3 {
		t.Fatalf("LOCK.ACQUIRE: %v %v", reply, err)
	}
	id, _ := reply[0].ToString()
	info, err := c.Do(ctx, c.B().Arbitrary("LOCK.INFO").Keys("l").Build()).ToMap()
	if mode := info["mode"]; err != nil {
		t.Errorf("LOCK.INFO: %v", err)
	} else if s, _ := mode.ToString(); s != "exclusive" {
		t.Errorf("mode %q", s)
	}
	if n, err := c.Do(ctx, c.B().Arbitrary("LOCK.RELEASE").Keys("l").Args(id).Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("LOCK.RELEASE: %d %v", n, err)
	}
}

// TestRueidisCache: what a client has cached is invalidated when another
// client writes.
func TestRueidisCache(t *testing.T) {
	addr := serve(t)
	reader := open(t, rueidis.ClientOption{InitAddress: []string{addr}})
	writer := open(t, rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	read := func() (string, bool) {
		r := reader.DoCache(ctx, reader.B().Get().Key("k").Cache(), time.Hour)
		s, err := r.ToString()
		if err != nil {
			t.Fatal(err)
		}
		return s, r.IsCacheHit()
	}
	for round := range 5 {
		want := strconv.Itoa(round)
		if err := writer.Do(ctx, writer.B().Set().Key("k").Value(want).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for {
			got, _ := read()
			if got == want {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("the cache still has %q", got)
			}
		}
		if got, hit := read(); !hit || got != want {
			t.Errorf("round %d: %q, from the cache: %v", round, got, hit)
		}
	}
}

func TestRueidisDedicated(t *testing.T) {
	addr := serve(t)
	c := open(t, rueidis.ClientOption{InitAddress: []string{addr}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	err := c.Dedicated(func(d rueidis.DedicatedClient) error {
		for _, r := range d.DoMulti(ctx,
			d.B().Watch().Key("w").Build(),
			d.B().Multi().Build(),
			d.B().Set().Key("w").Value("1").Build(),
			d.B().Arbitrary("LOCK.RELEASE").Keys("l").Args("x").Build(),
			d.B().Exec().Build()) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}

	got := make(chan string, 1)
	subscribed := make(chan struct{})
	hooked, release := c.Dedicate()
	defer release()
	hooks := hooked.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { got <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
	})
	hooked.Do(ctx, hooked.B().Subscribe().Channel("ch").Build())
	select {
	case <-subscribed:
	case err := <-hooks:
		t.Fatal(err)
	case <-ctx.Done():
		t.Fatal("no confirmation")
	}
	if n, err := c.Do(ctx, c.B().Publish().Channel("ch").Message("hello").Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("PUBLISH: %d %v", n, err)
	}
	select {
	case m := <-got:
		if m != "hello" {
			t.Errorf("message %q", m)
		}
	case <-ctx.Done():
		t.Fatal("no message")
	}
}

// TestPoolRueidis: rueidis works on a pool without its cache, for which a server would
// have to tell it of what changes.
func TestPoolRueidis(t *testing.T) {
	addr := servePool(t)
	if _, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}}); !errors.Is(err, rueidis.ErrNoCache) {
		t.Errorf("with its cache: %v", err)
	}
	c := open(t, rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for u := range 16 {
		wg.Go(func() {
			for i := range 50 {
				key := fmt.Sprintf("user%d:%d", u, i)
				if err := c.Do(ctx, c.B().Set().Key(key).Value("is "+key).Build()).Error(); err != nil {
					t.Error(err)
				}
				if got, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); err != nil || got != "is "+key {
					t.Errorf("%s is %q, %v", key, got, err)
				}
			}
		})
	}
	wg.Wait()
	err := c.Dedicated(func(d rueidis.DedicatedClient) error {
		for _, r := range d.DoMulti(ctx,
			d.B().Watch().Key("w").Build(), d.B().Multi().Build(), d.B().Set().Key("w").Value("1").Build(), d.B().Exec().Build()) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("a transaction: %v", err)
	}
	got, heard := make(chan string, 1), make(chan struct{})
	hooked, release := c.Dedicate()
	defer release()
	hooked.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { got <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { close(heard) },
	})
	hooked.Do(ctx, hooked.B().Psubscribe().Pattern("ne?s").Build())
	select {
	case <-heard:
	case <-ctx.Done():
		t.Fatal("no confirmation")
	}
	if n, err := c.Do(ctx, c.B().Publish().Channel("news").Message("hello").Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("PUBLISH: %d, %v", n, err)
	}
	select {
	case m := <-got:
		if m != "hello" {
			t.Errorf("message %q", m)
		}
	case <-ctx.Done():
		t.Fatal("no message")
	}
}
