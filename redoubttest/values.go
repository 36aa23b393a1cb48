package redoubttest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
)

// testValues holds replies to the shapes that redoubt.Reply documents.
func testValues(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	k := newKeys()
	key := k.together
	lua := func(source string) redoubt.Cmd {
		return redoubt.Cmd{Script: script(source), Keys: []string{key("script")}}
	}
	for _, step := range []struct {
		name string
		cmd  redoubt.Cmd
		want any
	}{
		{"status", redoubt.Cmd{Name: "SET", Keys: []string{key("s")}, Args: []string{"text"}}, "OK"},
		{"bulk string", redoubt.Cmd{Name: "GET", Keys: []string{key("s")}}, "text"},
		{"null", redoubt.Cmd{Name: "GET", Keys: []string{key("none")}}, nil},
		{"status for an empty value", redoubt.Cmd{Name: "SET", Keys: []string{key("e")}, Args: []string{""}}, "OK"},
		{"empty string", redoubt.Cmd{Name: "GET", Keys: []string{key("e")}}, ""},
		{"integer", redoubt.Cmd{Name: "INCRBY", Keys: []string{key("n")}, Args: []string{"9007199254740993"}}, int64(9007199254740993)},
		{"negative integer", redoubt.Cmd{Name: "DECRBY", Keys: []string{key("m")}, Args: []string{"5"}}, int64(-5)},
		{"lower case", redoubt.Cmd{Name: "get", Keys: []string{key("s")}}, "text"},
		{"array with a null", redoubt.Cmd{Name: "MGET", Keys: []string{key("s"), key("none"), key("n")}}, []any{"text", nil, "9007199254740993"}},
		{"empty array", redoubt.Cmd{Name: "LRANGE", Keys: []string{key("none")}, Args: []string{"0", "-1"}}, []any{}},
		{"hash of one field", redoubt.Cmd{Name: "HSET", Keys: []string{key("h")}, Args: []string{"f", "v"}}, int64(1)},
		{"map", redoubt.Cmd{Name: "HGETALL", Keys: []string{key("h")}}, []any{"f", "v"}},
		{"empty map", redoubt.Cmd{Name: "HGETALL", Keys: []string{key("none")}}, []any{}},
		{"set of one member", redoubt.Cmd{Name: "SADD", Keys: []string{key("set")}, Args: []string{"m"}}, int64(1)},
		{"set", redoubt.Cmd{Name: "SMEMBERS", Keys: []string{key("set")}}, []any{"m"}},
		{"sorted set of one member", redoubt.Cmd{Name: "ZADD", Keys: []string{key("z")}, Args: []string{"1.5", "m"}}, int64(1)},
		{"double", redoubt.Cmd{Name: "ZSCORE", Keys: []string{key("z")}, Args: []string{"m"}}, "1.5"},
		{"double without a fraction", redoubt.Cmd{Name: "ZINCRBY", Keys: []string{key("z")}, Args: []string{"1.5", "m"}}, "3"},
		{"second member", redoubt.Cmd{Name: "ZADD", Keys: []string{key("z")}, Args: []string{"0.5", "l"}}, int64(1)},
		{"members and scores", redoubt.Cmd{Name: "ZRANGE", Keys: []string{key("z")}, Args: []string{"0", "-1", "WITHSCORES"}}, []any{"l", "0.5", "m", "3"}},
		{"members and scores, backwards", redoubt.Cmd{Name: "zrevrangebyscore", Keys: []string{key("z")}, Args: []string{"+inf", "-inf", "withscores"}}, []any{"m", "3", "l", "0.5"}},
		{"members popped", redoubt.Cmd{Name: "ZPOPMAX", Keys: []string{key("z")}, Args: []string{"2"}}, []any{"m", "3", "l", "0.5"}},
		{"fields drawn", redoubt.Cmd{Name: "HRANDFIELD", Keys: []string{key("h")}, Args: []string{"-2", "WITHVALUES"}}, []any{"f", "v", "f", "v"}},
		{"place", redoubt.Cmd{Name: "GEOADD", Keys: []string{key("g")}, Args: []string{"13.361389", "38.115556", "p"}}, int64(1)},
		{"coordinates", redoubt.Cmd{Name: "GEOPOS", Keys: []string{key("g")}, Args: []string{"none", "p"}}, []any{nil, []any{"13.36138933897018433", "38.11555639549629859"}}},
		{"two words", redoubt.Cmd{Name: "SCRIPT EXISTS", Args: []string{strings.Repeat("0", 40)}}, []any{int64(0)}},
		{"two words and a key", redoubt.Cmd{Name: "OBJECT ENCODING", Keys: []string{key("n")}}, "int"},
		{"script: integers", lua("return {1, -2, 9007199254740991}"), []any{int64(1), int64(-2), int64(9007199254740991)}},
		{"script: nested", lua("return {{1, 'a'}, {}, {{'b'}}}"), []any{[]any{int64(1), "a"}, []any{}, []any{[]any{"b"}}}},
		{"script: false is null", lua("return {1, false, 2}"), []any{int64(1), nil, int64(2)}},
		{"script: true is 1", lua("return true"), int64(1)},
		{"script: a number loses its fraction", lua("return 3.9"), int64(3)},
		{"script: nothing is null", lua("return nil"), nil},
		{"script: status", lua("return redis.status_reply('FINE')"), "FINE"},
	} {
		got := must(t, c.Do(bounded(t), step.cmd))
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: got %#v, want %#v", step.name, got, step.want)
		}
	}

	t.Run("large map", func(t *testing.T) {
		fields := []string{"a", "1", "b", "2", "c", "3", "d", "4"}
		must(t, c.Do(bounded(t), redoubt.Cmd{Name: "HSET", Keys: []string{key("big")}, Args: fields}))
		flat, err := c.Do(bounded(t), redoubt.Cmd{Name: "HGETALL", Keys: []string{key("big")}}).Array()
		if err != nil {
			t.Fatal(err)
		}
		var pairs []string
		for i := 0; i+1 < len(flat); i += 2 {
			pairs = append(pairs, flat[i].(string)+flat[i+1].(string))
		}
		slices.Sort(pairs)
		if want := []string{"a1", "b2", "c3", "d4"}; !slices.Equal(pairs, want) {
			t.Errorf("got pairs %q, want %q", pairs, want)
		}
	})

	t.Run("binary", func(t *testing.T) {
		var all strings.Builder
		for i := range 256 {
			all.WriteByte(byte(i))
		}
		echo := script("redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[1], ARGV[1]}")
		for name, value := range map[string]string{
			"every byte": all.String(),
			"line ends":  "\r\n$5\r\n*1\r\n",
			"empty":      "",
			"a MiB":      strings.Repeat("\x00\xffab", 1<<18),
		} {
			key := key(name + all.String())
			got := must(t, c.Do(bounded(t), redoubt.Cmd{Script: echo, Keys: []string{key}, Args: []string{value}}))
			if !reflect.DeepEqual(got, []any{key, value}) {
				t.Errorf("%s: the script got other bytes", name)
			}
			if got := must(t, c.Do(bounded(t), redoubt.Cmd{Name: "GET", Keys: []string{key}})); got != value {
				t.Errorf("%s: GET returned other bytes", name)
			}
		}
	})
}

// testErrors holds that a server's error keeps its text and harms nothing else.
func testErrors(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	key := newKeys().together("list")
	must(t, c.Do(bounded(t), redoubt.Cmd{Name: "RPUSH", Keys: []string{key}, Args: []string{"x"}}))
	lua := func(source string) redoubt.Cmd {
		return redoubt.Cmd{Script: script(source), Keys: []string{key}}
	}
	for _, step := range []struct {
		name string
		cmd  redoubt.Cmd
		want string // the whole text when it has a space
	}{
		{"wrong type", redoubt.Cmd{Name: "INCR", Keys: []string{key}}, "WRONGTYPE"},
		{"unknown command", redoubt.Cmd{Name: "REDOUBTTEST", Keys: []string{key}}, "ERR"},
		{"unknown digest", redoubt.Cmd{Name: "EVALSHA", Args: []string{strings.Repeat("0", 40), "0"}}, "NOSCRIPT"},
		{"script's own", lua("return redis.error_reply('MYCODE the exact text')"), "MYCODE the exact text"},
	} {
		r := c.Do(bounded(t), step.cmd)
		code, _, whole := strings.Cut(step.want, " ")
		if !redoubt.IsCode(r.Err, code) {
			t.Errorf("%s: got %#v, want an error with code %s", step.name, r, code)
		} else if whole && r.Err.Error() != step.want {
			t.Errorf("%s: got %q, want %q", step.name, r.Err, step.want)
		}
	}
	got := must(t, c.Do(bounded(t), lua("return {1, redis.error_reply('MYCODE inside'), 'x'}")))
	if want := []any{int64(1), redoubt.ServerError("MYCODE inside"), "x"}; !reflect.DeepEqual(got, want) {
		t.Errorf("an error in an array: got %#v, want %#v", got, want)
	}
	if got := must(t, c.Do(bounded(t), redoubt.Cmd{Name: "LLEN", Keys: []string{key}})); got != int64(1) {
		t.Errorf("after the errors: got %#v, want 1", got)
	}
}
