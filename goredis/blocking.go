package goredis

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// blockerLinger is how long a connection for blocking commands is kept for the
// next one.
const blockerLinger = 10 * time.Second

// A blocker is a connection for blocking commands, outside the pool of the
// wrapped client: there it would take turns from everybody else, and be cut by
// the read time-out. It runs one command at a time.
type blocker struct {
	client *redis.Client // with one connection at most
	timer  *time.Timer   // closes it when it was idle for long

	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// blockers are the idle ones, by the client they were made from.
type blockers struct {
	mu   sync.Mutex
	idle map[*redis.Client][]*blocker
}

// block runs a blocking command. When ctx ends it closes the connection, so that
// the server stops serving a caller that has left.
func (c *Conn) block(ctx context.Context, it *item) redoubt.Reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		c.runBlocking(ctx, it)
		close(done)
	}()
	select {
	case <-done:
		return it.reply
	case <-ctx.Done():
		return it.leave(ctx.Err())
	}
}

func (c *Conn) runBlocking(ctx context.Context, it *item) {
	var p conn.Pauses
	for {
		it.prepare(ctx)
		if c.single != nil {
			it.node = c.single
		} else {
			it.redirected = false
			c.route(ctx, it)
		}
		if it.err == nil {
			c.sendBlocking(ctx, it)
		}
		v := c.judge(ctx, it)
		if v == finished {
			return
		}
		if it.missed {
			c.loadMissed(ctx, []*item{it})
		}
		if it.redirected {
			c.refresh() // and ask the ClusterClient again: it follows no redirect here
			v = sendLater
		}
		err := ctx.Err()
		if err == nil && v == sendLater {
			err = p.Wait(ctx)
		}
		if err != nil {
			it.fail(conn.Stopped(err, it.err))
			return
		}
	}
}

func (c *Conn) sendBlocking(ctx context.Context, it *item) {
	b := c.blockers.get(it.node)
	leave := context.AfterFunc(ctx, b.cut)
	it.err = b.client.Process(ctx, it)
	if leave() {
		c.blockers.put(it.node, b)
		return
	}
	_ = b.client.Close()
}

func (s *blockers) get(origin *redis.Client) *blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.idle[origin]; len(list) > 0 {
		b := list[len(list)-1]
		s.idle[origin] = list[:len(list)-1]
		b.timer.Stop()
		return b
	}
	return newBlocker(origin)
}

func (s *blockers) put(origin *redis.Client, b *blocker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = make(map[*redis.Client][]*blocker)
	}
	s.idle[origin] = append(s.idle[origin], b)
	b.timer = time.AfterFunc(blockerLinger, func() { s.expire(origin, b) })
}

// expire closes b unless it is in use again.
func (s *blockers) expire(origin *redis.Client, b *blocker) {
	s.mu.Lock()
	list := s.idle[origin]
	for i := range list {
		if list[i] == b {
			list = append(list[:i], list[i+1:]...)
			if s.idle[origin] = list; len(list) == 0 {
				delete(s.idle, origin)
			}
			s.mu.Unlock()
			_ = b.client.Close()
			return
		}
	}
	s.mu.Unlock()
}

// close closes what is idle.
func (s *blockers) close() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, list := range idle {
		for _, b := range list {
			b.timer.Stop()
			_ = b.client.Close()
		}
	}
}

func newBlocker(origin *redis.Client) *blocker {
	b := new(blocker)
	b.client = redis.NewClient(blockerOptions(origin, b))
	return b
}

// blockerOptions returns the options of b's client.
func blockerOptions(origin *redis.Client, b *blocker) *redis.Options {
	opts := *origin.Options()
	dial := opts.Dialer
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return b.took(conn)
	}
	opts.PoolSize, opts.MaxActiveConns = 1, 1
	opts.MinIdleConns, opts.MaxIdleConns = 0, 0
	opts.PipelinePoolSize = -1
	opts.MaxConcurrentDials = 1
	opts.ReadTimeout = -1 // none: the command says how long it takes
	opts.ContextTimeoutEnabled = false
	opts.MaxRetries = -1
	opts.ClientSideCache, opts.ClientSideCacheConfig = nil, nil
	opts.PushNotificationProcessor = nil
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &opts
}

// took notes the connection, so that it can be cut.
func (b *blocker) took(conn net.Conn) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	b.conn = conn
	return conn, nil
}

// cut ends the command under way, if any, and the blocker's use.
func (b *blocker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.conn != nil {
		_ = b.conn.Close()
	}
}
