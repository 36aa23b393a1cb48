package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Adjacent MGETs are sent as one. Each has its own replies, in the order of the others.
//
// Promise: Adjacent read-only MGETs are sent as one; when the server refuses it, each is sent by itself.
func TestMerge(t *testing.T) {
	s := redistest.Start(t)
	conn := wrap(t, &redis.Options{Addr: s.Addr()})
	for how, run := range pipelines(t, conn) {
		t.Run(how, func(t *testing.T) {
			set := func(v string) redoubt.Cmd {
				return redoubt.Cmd{Name: "SET", Keys: []string{"a"}, Args: []string{v}}
			}
			must := func(want []any, cmds ...redoubt.Cmd) {
				t.Helper()
				for i, r := range run(cmds) {
					if r.Err != nil || !reflect.DeepEqual(r.Val, want[i]) {
						t.Errorf("%d: got %v, %v; want %v", i, r.Val, r.Err, want[i])
					}
				}
			}
			must([]any{"OK"}, set("0"))
			must([]any{int64(1)}, redoubt.Cmd{Name: "DEL", Keys: []string{"a"}})
			was := mgets(t, s)
			must([]any{"OK", []any{"1"}, []any{nil, "1"}, "OK", []any{"2"}, []any{"2"}, []any{"2"}},
				set("1"), mget("a"), mget("b", "a"), set("2"), mget("a"), redoubt.Cmd{Name: "MGET", Keys: []string{"a"}}, mget("a"))
			if n := mgets(t, s) - was; n != 4 {
				t.Errorf("%d MGETs were sent, want 4", n)
			}
			var cmds []redoubt.Cmd
			var want []any
			for i := range 300 {
				cmds, want = append(cmds, mget("a", fmt.Sprint("absent", i))), append(want, []any{"2", nil})
			}
			was = mgets(t, s)
			must(want, cmds...)
			if n := mgets(t, s) - was; n != 5 { // of 128 keys at most
				t.Errorf("%d MGETs were sent, want 5", n)
			}
		})
	}
}

// When a server refuses merged commands, as a node of a cluster does, each command is sent by itself.
//
// Promise: Adjacent read-only MGETs are sent as one; when the server refuses it, each is sent by itself.
func TestMergeIsRefused(t *testing.T) {
	node := redistest.StartCluster(t, 1, 0).Nodes()[0]
	for _, how := range []string{"Pipeline", "PipelineEach"} {
		t.Run(how, func(t *testing.T) {
			run := pipelines(t, wrap(t, &redis.Options{Addr: node.Addr()}))[how]
			if r := run([]redoubt.Cmd{{Name: "SET", Keys: []string{"a"}, Args: []string{"1"}}}); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
			for range 2 {
				for i, r := range run([]redoubt.Cmd{mget("b"), mget("a"), mget("a", "b")}) {
					_, refused := errors.AsType[redoubt.ServerError](r.Err)
					if want := []any{[]any{nil}, []any{"1"}, nil}[i]; refused != (i == 2) || i < 2 && !reflect.DeepEqual(r.Val, want) {
						t.Errorf("%d: got %v, %v", i, r.Val, r.Err)
					}
				}
			}
			refused := counted(t, node, "rejected_calls")
			run([]redoubt.Cmd{mget("b"), mget("a")})
			if n := counted(t, node, "rejected_calls") - refused; n != 0 {
				t.Errorf("%d MGETs were refused: they were merged again", n)
			}
		})
	}
}

// A caller that may not read a key is refused alone. Later commands are merged as before.
//
// Promise: Adjacent read-only MGETs are sent as one; when the server refuses it, each is sent by itself.
func TestMergeWithOneRefused(t *testing.T) {
	s := redistest.Start(t)
	s.CLI("ACL", "SETUSER", "reader", "on", "nopass", "+@all", "~a", "~b")
	s.CLI("SET", "a", "1")
	for how, run := range pipelines(t, wrap(t, &redis.Options{Addr: s.Addr(), Username: "reader", Password: "x"})) {
		t.Run(how, func(t *testing.T) {
			for i, r := range run([]redoubt.Cmd{mget("b"), mget("secret"), mget("a")}) {
				if refused := redoubt.IsCode(r.Err, "NOPERM"); refused != (i == 1) || i != 1 && !reflect.DeepEqual(r.Val, []any{[]any{nil, nil, "1"}[i]}) {
					t.Errorf("%d: got %v, %v", i, r.Val, r.Err)
				}
			}
			was := mgets(t, s)
			run([]redoubt.Cmd{mget("b"), mget("a")})
			if n := mgets(t, s) - was; n != 1 {
				t.Errorf("then %d MGETs were sent, want 1", n)
			}
		})
	}
}

// Nothing is merged for a cluster.
//
// Promise: Adjacent read-only MGETs are sent as one; when the server refuses it, each is sent by itself.
func TestClusterMergesNothing(t *testing.T) {
	cluster := redistest.StartCluster(t, 1, 0)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	for how, run := range pipelines(t, wrapped(t, rdb)) {
		for i, r := range run([]redoubt.Cmd{mget("b"), mget("a")}) {
			if r.Err != nil {
				t.Errorf("%s, %d: %v", how, i, r.Err)
			}
		}
	}
	if n := counted(t, cluster.Nodes()[0], "rejected_calls"); n != 0 {
		t.Errorf("%d MGETs were refused: they were merged", n)
	}
}

func mget(keys ...string) redoubt.Cmd {
	return redoubt.Cmd{Name: "MGET", Keys: keys, Flags: redoubt.ReadOnly}
}

// pipelines are the ways to send one.
func pipelines(t *testing.T, c redoubt.Conn) map[string]func([]redoubt.Cmd) []redoubt.Reply {
	conn := c.(*goredis.Conn)
	return map[string]func([]redoubt.Cmd) []redoubt.Reply{
		"Pipeline": func(cmds []redoubt.Cmd) []redoubt.Reply { return conn.Pipeline(t.Context(), cmds) },
		"PipelineEach": func(cmds []redoubt.Cmd) []redoubt.Reply {
			replies, told := make([]redoubt.Reply, len(cmds)), 0
			conn.PipelineEach(context.Background(), cmds, func(i int, r redoubt.Reply) {
				replies[i] = r
				told++
			})
			if told != len(cmds) {
				t.Errorf("told of %d replies, want %d", told, len(cmds))
			}
			return replies
		},
	}
}

func mgets(t *testing.T, s *redistest.Server) int {
	t.Helper()
	return counted(t, s, "calls")
}

// counted is what a server has counted of the command MGET.
func counted(t *testing.T, s *redistest.Server, what string) (n int) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	stats := rdb.Info(t.Context(), "commandstats").Val()
	if m := regexp.MustCompile(`cmdstat_mget:(?:.*,)?` + what + `=(\d+)`).FindStringSubmatch(stats); m != nil {
		_, _ = fmt.Sscan(m[1], &n)
	}
	return n
}
