package redoubttest

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/redoubt-go/redoubt"
)

func testPipelines(t *testing.T, open func(*testing.T) redoubt.Conn) {
	t.Run("order", func(t *testing.T) {
		c, k := open(t), newKeys()
		echo := script("return ARGV[1]")
		var cmds []redoubt.Cmd
		for i := range 300 {
			n := strconv.Itoa(i)
			if i%3 == 0 {
				cmds = append(cmds, redoubt.Cmd{Script: echo, Keys: []string{k.apart(i)}, Args: []string{n}})
			} else {
				cmds = append(cmds, redoubt.Cmd{Name: "ECHO", Args: []string{n}})
			}
		}
		for i, r := range c.Pipeline(bounded(t), cmds) {
			if want := strconv.Itoa(i); r.Err != nil || r.Val != any(want) {
				t.Fatalf("reply %d is %#v, want %q", i, r, want)
			}
		}
	})

	t.Run("one fails", func(t *testing.T) {
		c, k := open(t), newKeys()
		list := k.apart("list")
		must(t, c.Do(bounded(t), redoubt.Cmd{Name: "RPUSH", Keys: []string{list}, Args: []string{"x"}}))
		rs := c.Pipeline(bounded(t), []redoubt.Cmd{
			{Name: "INCR", Keys: []string{k.apart("a")}},
			{Name: "INCR", Keys: []string{list}},
			{Name: "INCR", Keys: []string{k.apart("b")}},
			{Name: "GET", Keys: []string{k.apart("none")}},
			{Name: "INCR", Keys: []string{k.apart("a")}},
		})
		if !redoubt.IsCode(rs[1].Err, "WRONGTYPE") {
			t.Errorf("the wrong command got %#v", rs[1])
		}
		for i, want := range map[int]any{0: int64(1), 2: int64(1), 3: nil, 4: int64(2)} {
			if rs[i].Err != nil || !reflect.DeepEqual(rs[i].Val, want) {
				t.Errorf("reply %d is %#v, want %#v", i, rs[i], want)
			}
		}
	})

	t.Run("the first fails", func(t *testing.T) { // go-redis takes the first error for the pipeline's
		c, k := open(t), newKeys()
		rs := c.Pipeline(bounded(t), []redoubt.Cmd{
			{Name: "REDOUBTTEST", Keys: []string{k.together("x")}},
			{Name: "INCR", Keys: []string{k.together("a")}},
		})
		if !redoubt.IsCode(rs[0].Err, "ERR") || rs[1].Err != nil {
			t.Errorf("got %#v", rs)
		}
		if n := counter(t, c, k.together("a")); n != 1 {
			t.Errorf("counted %d, want 1", n)
		}
	})

	t.Run("empty", func(t *testing.T) {
		if rs := open(t).Pipeline(bounded(t), nil); len(rs) != 0 {
			t.Errorf("got %#v", rs)
		}
	})

	t.Run("with a blocking command", func(t *testing.T) {
		c, k := open(t), newKeys()
		rs := c.Pipeline(bounded(t), []redoubt.Cmd{
			{Name: "INCR", Keys: []string{k.apart("a")}},
			{Name: "BLPOP", Keys: []string{k.apart("q")}, Args: []string{"0.05"}, Flags: redoubt.Blocking},
			{Name: "INCR", Keys: []string{k.apart("a")}},
		})
		if rs[0].Val != any(int64(1)) || !rs[1].IsNil() || rs[2].Val != any(int64(2)) {
			t.Errorf("got %#v", rs)
		}
	})
}

func testScripts(t *testing.T, open func(*testing.T) redoubt.Conn) {
	const incr = "return redis.call('INCR', KEYS[1])"

	t.Run("unknown to the server", func(t *testing.T) {
		c, k := open(t), newKeys()
		s := script(incr)
		for want := range int64(3) {
			if got := must(t, c.Do(bounded(t), redoubt.Cmd{Script: s, Keys: []string{k.together("n")}})); got != any(want+1) {
				t.Fatalf("run %d returned %#v", want+1, got)
			}
		}
	})

	t.Run("unknown in a pipeline", func(t *testing.T) {
		c, k := open(t), newKeys()
		known, unknown := script(incr), script(incr)
		for i := range 3 {
			must(t, c.Do(bounded(t), redoubt.Cmd{Script: known, Keys: []string{k.apart(i)}}))
		}
		var cmds []redoubt.Cmd
		for i := range 30 {
			key := []string{k.apart(i % 3)}
			cmds = append(cmds,
				redoubt.Cmd{Name: "INCR", Keys: key},
				redoubt.Cmd{Script: unknown, Keys: key},
				redoubt.Cmd{Script: known, Keys: key},
			)
		}
		for i, r := range c.Pipeline(bounded(t), cmds) {
			if _, err := r.Int(); err != nil {
				t.Fatalf("reply %d: %v", i, err)
			}
		}
		for i := range 3 {
			if n := counter(t, c, k.apart(i)); n != 31 {
				t.Errorf("key %d counted %d, want 31: only what missed its script may be sent again", i, n)
			}
		}
	})

	t.Run("flushed between", func(t *testing.T) {
		c, k := open(t), newKeys()
		s := script(incr)
		cmd := redoubt.Cmd{Script: s, Keys: []string{k.together("n")}}
		for i := range int64(5) {
			if got := must(t, c.Do(bounded(t), cmd)); got != any(i+1) {
				t.Fatalf("run %d returned %#v", i+1, got)
			}
			flushScripts(t, c)
		}
	})

	t.Run("flushed all the time", func(t *testing.T) {
		c, k := open(t), newKeys()
		s := script(incr)
		const workers, runs = 4, 200
		done := make(chan struct{})
		go func() {
			defer close(done)
			parallel(t, workers, func(g int) {
				ctx := bounded(t)
				cmd := redoubt.Cmd{Script: s, Keys: []string{k.apart(g)}}
				for i := range runs / 2 {
					rs := []redoubt.Reply{{}, {}}
					if i%2 == 0 {
						rs[0], rs[1] = c.Do(ctx, cmd), c.Do(ctx, cmd)
					} else {
						rs = c.Pipeline(ctx, []redoubt.Cmd{cmd, cmd})
					}
					for _, r := range rs {
						if r.Err != nil {
							t.Error(r.Err)
						}
					}
				}
			})
		}()
		for running := true; running; {
			flushScripts(t, c)
			select {
			case <-done:
				running = false
			default:
			}
		}
		for g := range workers {
			if n := counter(t, c, k.apart(g)); n != runs {
				t.Errorf("counted %d, want %d", n, runs)
			}
		}
	})

	t.Run("without keys", func(t *testing.T) {
		if got := must(t, open(t).Do(bounded(t), redoubt.Cmd{Script: script("return #KEYS .. ARGV[1]"), Args: []string{"x"}})); got != any("0x") {
			t.Errorf("got %#v", got)
		}
	})

	t.Run("with many keys", func(t *testing.T) {
		k := newKeys()
		cmd := redoubt.Cmd{Script: script("return {#KEYS, #ARGV, KEYS[20], ARGV[20]}")}
		for i := range 20 {
			cmd.Keys = append(cmd.Keys, k.together(strconv.Itoa(i)))
			cmd.Args = append(cmd.Args, strconv.Itoa(i))
		}
		got := must(t, open(t).Do(bounded(t), cmd))
		if want := []any{int64(20), int64(20), k.together("19"), "19"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	})
}
