package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// runGoRedis sends the steps by go-redis, as the scripts of testdata/clients do by their clients.
func runGoRedis(t *testing.T, task task) (a answer) {
	a.Version = redis.Version()
	for _, d := range task.Doors {
		a.Replies = append(a.Replies, goRedisOn(t, d, task.Steps))
	}
	return a
}

func goRedisOn(t *testing.T, d door, steps []*step) (replies []any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	g := &goRedis{door: d, saved: make(map[string]string)}
	g.r, g.other = g.connect(), g.connect()
	defer func() {
		for _, r := range g.open {
			_ = r.Close()
		}
	}()
	for _, s := range steps {
		if s.Ours && d.Direct {
			replies = append(replies, nil)
			continue
		}
		got, err := g.do(ctx, s)
		if err != nil {
			got = plain(err)
		}
		replies = append(replies, got)
	}
	return replies
}

type goRedis struct {
	door     door
	r, other *redis.Client
	open     []*redis.Client
	saved    map[string]string
}

func (g *goRedis) connect() *redis.Client { return g.connectWith(&redis.Options{}) }

func (g *goRedis) connectWith(o *redis.Options) *redis.Client {
	o.Addr, o.Protocol, o.ReadTimeout = fmt.Sprintf("127.0.0.1:%d", g.door.Port), g.door.Protocol, time.Minute
	r := redis.NewClient(o)
	g.open = append(g.open, r)
	return r
}

func (g *goRedis) do(ctx context.Context, s *step) (any, error) {
	commands := make([][]any, len(s.Commands))
	for i, c := range s.Commands {
		for _, w := range c {
			if v, ok := g.saved[w]; ok {
				w = v
			}
			commands[i] = append(commands[i], w)
		}
	}
	first := fmt.Sprint(commands[0][0])
	var got any
	var err error
	switch s.Do {
	case "call":
		got, err = g.r.Do(ctx, commands[0]...).Result()
	case "pipeline":
		got = queued(ctx, g.r.Pipeline(), commands)
	case "multi":
		got = queued(ctx, g.r.TxPipeline(), commands)
	case "watch":
		err = g.r.Watch(ctx, func(tx *redis.Tx) error {
			if err := g.other.Do(ctx, commands[1]...).Err(); err != nil {
				return err
			}
			got = queued(ctx, tx.TxPipeline(), commands[2:])
			return nil
		}, first)
	case "blocked":
		got, err = g.blocked(ctx, commands[0], commands[1])
	case "scan":
		var keys []string
		it := g.r.Scan(ctx, 0, first, 10).Iterator()
		for it.Next(ctx) {
			keys = append(keys, it.Val())
		}
		slices.Sort(keys)
		got, err = keys, it.Err()
	case "pages":
		got, err = g.pages(ctx, commands[0])
	case "script":
		got, err = redis.NewScript(first).Run(ctx, g.r, s.Commands[1], commands[2]...).Result()
	case "subscribe":
		got, err = g.listen(ctx, g.other.Subscribe(ctx, first), (*redis.PubSub).Unsubscribe, commands[1])
	case "psubscribe":
		got, err = g.listen(ctx, g.other.PSubscribe(ctx, first), (*redis.PubSub).PUnsubscribe, commands[1])
	case "ssubscribe":
		got, err = g.listen(ctx, g.other.SSubscribe(ctx, first), (*redis.PubSub).SUnsubscribe, commands[1])
	case "tracking":
		got, err = g.tracking(ctx, first, commands[1])
	default:
		err = errors.New("no such directive: " + s.Do)
	}
	got = plain(got)
	for name, path := range s.Save {
		v := got
		for _, i := range path {
			if list, ok := v.([]any); ok && i < len(list) {
				v = list[i]
			}
		}
		if f, ok := v.(float64); ok {
			v = fmt.Sprintf("%.0f", f)
		}
		g.saved[name] = fmt.Sprint(v)
	}
	return got, err
}

func queued(ctx context.Context, p redis.Pipeliner, commands [][]any) any {
	var cmds []*redis.Cmd
	for _, c := range commands {
		cmds = append(cmds, p.Do(ctx, c...))
	}
	if _, err := p.Exec(ctx); errors.Is(err, redis.TxFailedErr) {
		return err
	}
	var replies []any
	for _, c := range cmds {
		if v, err := c.Result(); err != nil && !errors.Is(err, redis.Nil) {
			replies = append(replies, err)
		} else {
			replies = append(replies, v)
		}
	}
	return replies
}

func (g *goRedis) pages(ctx context.Context, command []any) (any, error) {
	all := []any{}
	for cursor := any("0"); ; {
		reply, err := g.r.Do(ctx, append(slices.Clone(command), "CURSOR", cursor)...).Slice()
		if err != nil || len(reply) != 2 {
			return reply, err
		}
		page, _ := reply[1].([]any)
		all = append(all, page...)
		if cursor = reply[0]; cursor == "0" {
			return all, nil
		}
	}
}

func (g *goRedis) blocked(ctx context.Context, waits, wakes []any) (any, error) {
	waited := make(chan *redis.Cmd, 1)
	go func() { waited <- g.r.Do(ctx, waits...) }()
	woke, err := g.other.Do(ctx, wakes...).Result()
	if err != nil {
		return nil, err
	}
	v, err := (<-waited).Result()
	if err != nil {
		return []any{err, woke}, nil //nolint:nilerr // it is the reply
	}
	return []any{v, woke}, nil
}

func (g *goRedis) listen(
	ctx context.Context, s *redis.PubSub, leave func(*redis.PubSub, context.Context, ...string) error, publish []any,
) (any, error) {
	defer s.Close()
	confirmed, err := s.Receive(ctx)
	if err != nil {
		return nil, err
	}
	heard, err := g.r.Do(ctx, publish...).Result()
	if err != nil {
		return nil, err
	}
	got, err := s.Receive(ctx)
	if err != nil {
		return nil, err
	}
	if err := leave(s, ctx); err != nil {
		return nil, err
	}
	left, err := s.Receive(ctx)
	return []any{fmt.Sprint(confirmed), heard, fmt.Sprint(got), fmt.Sprint(left)}, err
}

// tracking redirects invalidations to a subscriber in RESP2, and receives them on the same
// connection in RESP3.
func (g *goRedis) tracking(ctx context.Context, key string, write []any) (any, error) {
	if g.door.Protocol == 3 {
		return g.pushed(ctx, key, write)
	}
	var id atomic.Int64
	listener := g.connectWith(&redis.Options{OnConnect: func(ctx context.Context, c *redis.Conn) error {
		n, err := c.ClientID(ctx).Result()
		id.Store(n)
		return err
	}})
	s := listener.Subscribe(ctx, "__redis__:invalidate")
	defer s.Close()
	if _, err := s.Receive(ctx); err != nil {
		return nil, err
	}
	reader := g.connect().Conn()
	defer reader.Close() //nolint:errcheck // of no interest
	if err := reader.Do(ctx, "CLIENT", "TRACKING", "ON", "REDIRECT", id.Load()).Err(); err != nil {
		return nil, err
	}
	if err := reader.Get(ctx, key).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if err := g.r.Do(ctx, write...).Err(); err != nil {
		return nil, err
	}
	got, err := s.ReceiveMessage(ctx)
	if err != nil {
		return nil, err
	}
	return got.PayloadSlice, nil
}

// invalidated collects what pushes say.
type invalidated chan []any

func (c invalidated) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	c <- n
	return nil
}

func (g *goRedis) pushed(ctx context.Context, key string, write []any) (any, error) {
	got := make(invalidated, 16)
	r := g.connectWith(&redis.Options{PoolSize: 1})
	if err := r.RegisterPushNotificationHandler("invalidate", got, false); err != nil {
		return nil, err
	}
	if err := r.Do(ctx, "CLIENT", "TRACKING", "ON").Err(); err != nil {
		return nil, err
	}
	if err := r.Get(ctx, key).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if err := g.r.Do(ctx, write...).Err(); err != nil {
		return nil, err
	}
	for {
		select {
		case n := <-got:
			return n, nil
		default: // pushes are read with the next reply
			if err := r.Ping(ctx).Err(); err != nil {
				return nil, err
			}
		}
	}
}

// plain returns a reply as JSON has it.
func plain(v any) any {
	switch v := v.(type) {
	case error:
		if errors.Is(v, redis.Nil) {
			return nil
		}
		return map[string]any{"error": v.Error()}
	case string:
		if !utf8.ValidString(v) {
			return map[string]any{"hex": fmt.Sprintf("%x", v)}
		}
		return v
	case int64:
		return float64(v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return map[string]any{"float": strings.ToLower(fmt.Sprint(v))}
		}
		return v
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[any]any:
		pairs := make([]any, 0, len(v))
		for k, w := range v {
			pairs = append(pairs, []any{plain(k), plain(w)})
		}
		return map[string]any{"map": pairs}
	case nil, bool:
		return v
	}
	return map[string]any{"type": fmt.Sprintf("%T", v), "is": fmt.Sprint(v)}
}
