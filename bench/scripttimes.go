package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scriptTimes prints how many commands one acquire and one release send, and how
// long the server spends in them, by its own count (INFO commandstats), for a lone
// caller and for 256. Reading and writing sockets is not included.
func (c config) scriptTimes(ctx context.Context, rdb *redis.Client, lockers []locker) error {
	for _, l := range lockers {
		for _, callers := range []int{1, 256} {
			var acquired, released []usage
			for round := range c.rounds {
				c.progress("server time of %s, %d callers, round %d of %d", l.name, callers, round+1, c.rounds)
				ctx, cancel := context.WithTimeout(ctx, patience) // a library that misses a wake-up would wait for ever
				defer cancel()
				releases := make([]func(context.Context) error, callers)
				errs := make([]error, callers)
				phase := func(do func(caller int) error) usage {
					scripts, sets := sent(ctx, rdb)
					var wg sync.WaitGroup
					for caller := range callers {
						wg.Go(func() {
							if errs[caller] == nil {
								errs[caller] = do(caller)
							}
						})
					}
					wg.Wait()
					scripts2, sets2 := sent(ctx, rdb)
					if scripts2.number > scripts.number {
						return scripts2.less(scripts)
					}
					return sets2.less(sets)
				}
				var took, gave usage
				times := 1024 / callers
				for range times { // few locks are held at a time, as in production
					took = took.and(phase(func(caller int) (err error) {
						releases[caller], err = l.acquire(ctx, fmt.Sprint("times:", caller))
						return err
					}))
					gave = gave.and(phase(func(caller int) error { return releases[caller](ctx) }))
				}
				n := float64(times * callers)
				took, gave = usage{took.number / n, took.us / n}, usage{gave.number / n, gave.us / n}
				for _, err := range errs {
					if err != nil {
						return fmt.Errorf("%s: %w", l.name, err)
					}
				}
				acquired, released = append(acquired, took), append(released, gave)
				c.raw.Printf("raw\tserver time\t%d callers\t%s\tacquire %.2f commands %.2f us\trelease %.2f commands %.2f us",
					callers, l.name, took.number, took.us, gave.number, gave.us)
			}
			c.progress("")
			number, us := func(c usage) float64 { return c.number }, func(c usage) float64 { return c.us }
			c.printf("server us  %4d callers  %-34s acquire %4.2f commands %5.1f us  release %4.2f commands %5.1f us", callers, l.name,
				median(acquired, number), median(acquired, us), median(released, number), median(released, us))
		}
	}
	return nil
}

// A usage is how many commands a server has run, and its time in them.
type usage struct{ number, us float64 }

func (c usage) and(d usage) usage  { return usage{c.number + d.number, c.us + d.us} }
func (c usage) less(d usage) usage { return usage{c.number - d.number, c.us - d.us} }

// sent returns what the server has run so far: the scripts with the commands that they call, or SET
// if no script was called.
func sent(ctx context.Context, rdb *redis.Client) (scripts, sets usage) {
	all := map[string]usage{}
	for line := range strings.Lines(rdb.Info(ctx, "commandstats").Val()) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		var c usage
		for f := range strings.SplitSeq(strings.TrimSpace(rest), ",") {
			k, v, _ := strings.Cut(f, "=")
			switch k {
			case "calls":
				c.number, _ = strconv.ParseFloat(v, 64)
			case "usec":
				c.us, _ = strconv.ParseFloat(v, 64)
			}
		}
		all[name] = c
	}
	return all["evalsha"].and(all["eval"]), all["set"]
}
