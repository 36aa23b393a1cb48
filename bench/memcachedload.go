package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// A cacheClient is a connection that sends a pipeline, reads the answers, and sends the next
// pipeline. It checks every byte of the answers.
type cacheClient struct {
	conn      *socket.Conn
	out, want []byte
	read      int // bytes of the answers that have come
	sent      time.Time
}

const (
	cacheKeys  = 10_000
	cacheValue = 64 // bytes
)

func cacheKey(n int) string { return fmt.Sprintf("key:%06d", n) }

// appendValue is a value that names its key.
func appendValue(b []byte, key string) []byte {
	b = append(b, key...)
	return append(b, "......................................................"[:cacheValue-len(key)]...)
}

func appendSet(b []byte, key string) []byte {
	b = append(append(append(b, "set "...), key...), " 0 0 64\r\n"...)
	return append(appendValue(b, key), "\r\n"...)
}

// fillMemcached sets all keys, so that every get is a hit.
func fillMemcached(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for first := 0; first < cacheKeys; first += 100 {
		var b []byte
		for i := range 100 {
			b = appendSet(b, cacheKey(first+i))
		}
		if _, err := conn.Write(b); err != nil {
			return err
		}
		want := strings.Repeat("STORED\r\n", 100)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			return fmt.Errorf("set answered %.100q, %w", got, err)
		}
	}
	return nil
}

// next makes the next pipeline and the expected answers.
func (c *cacheClient) next(verb string, pipeline int) {
	c.out, c.want, c.read = c.out[:0], c.want[:0], 0
	for range pipeline {
		key := cacheKeyTexts[rand.IntN(cacheKeys)]
		if verb == "set" {
			c.out = appendSet(c.out, key)
			c.want = append(c.want, "STORED\r\n"...)
			continue
		}
		c.out = append(append(append(c.out, "get "...), key...), "\r\n"...)
		c.want = append(append(append(c.want, "VALUE "...), key...), " 0 64\r\n"...)
		c.want = append(appendValue(c.want, key), "\r\nEND\r\n"...)
	}
}

var cacheKeyTexts = func() (all [cacheKeys]string) {
	for i := range all {
		all[i] = cacheKey(i)
	}
	return all
}()

// send sends the pipeline, which fits into every socket's buffer.
func (c *cacheClient) send() error {
	c.sent = time.Now()
	n, err := c.conn.TryWrite(c.out)
	if err == nil && n < len(c.out) {
		err = io.ErrShortWrite
	}
	return err
}

// receive reads once, and reports whether all answers have come.
func (c *cacheClient) receive(buf []byte) (done bool, err error) {
	for {
		n, err := c.conn.Read(buf)
		if errors.Is(err, socket.ErrWouldBlock) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if c.read+n > len(c.want) || !bytes.Equal(buf[:n], c.want[c.read:c.read+n]) {
			return false, fmt.Errorf("answered %.200q, want %.200q", buf[:n], c.want[c.read:])
		}
		c.read += n
		if c.read == len(c.want) {
			return true, nil
		}
		if n < len(buf) {
			return false, nil
		}
	}
}

// memcachedLoad has clients send pipelines of gets or sets, all from one thread, as
// redis-benchmark does.
func (c config) memcachedLoad(ctx context.Context, t target, l load, verb string) (result, error) {
	poll, err := socket.NewPoll()
	if err != nil {
		return result{}, err
	}
	defer func() { _ = poll.Close() }()
	clients := make([]*cacheClient, l.clients)
	for i := range clients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.addr)
		if err != nil {
			return result{}, err
		}
		bare, err := socket.Detach(conn)
		if err != nil {
			return result{}, err
		}
		defer bare.Release()
		clients[i] = &cacheClient{conn: bare}
		if err := poll.Add(bare, uint64(i)); err != nil {
			return result{}, err
		}
	}
	var latencies []time.Duration
	buf := make([]byte, 16<<10)
	events := make([]socket.Event, 0, 256)
	used, begin := cpuSeconds(t.pid), time.Now()
	for _, client := range clients {
		client.next(verb, l.pipeline)
		if err := client.send(); err != nil {
			return result{}, err
		}
	}
	for busy := len(clients); busy > 0 && ctx.Err() == nil; {
		if events, err = poll.Wait(events[:0]); err != nil {
			return result{}, err
		}
		for _, e := range events {
			client := clients[e.ID]
			done, err := client.receive(buf)
			if err != nil {
				return result{}, fmt.Errorf("%s: %w", t.name, err)
			}
			if !done {
				continue
			}
			now := time.Now()
			latencies = append(latencies, now.Sub(client.sent))
			if now.Sub(begin) > c.duration {
				busy--
				continue
			}
			client.next(verb, l.pipeline)
			if err := client.send(); err != nil {
				return result{}, err
			}
		}
	}
	took := time.Since(begin).Seconds()
	n := float64(len(latencies) * l.pipeline)
	slices.Sort(latencies)
	at := func(q float64) string {
		d := latencies[int(q*float64(len(latencies)-1))]
		return strconv.FormatFloat(d.Seconds()*1000, 'f', 3, 64)
	}
	return result{perSecond: n / took, p50: at(0.5), p99: at(0.99), cpu: (cpuSeconds(t.pid) - used) * 1e6 / n}, ctx.Err()
}
