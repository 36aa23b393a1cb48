package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scriptTimes prints how long the server spends in the commands of one acquire
// and of one release, by its own count (INFO commandstats), for a lone caller and
// for 256. What surrounds them, reading and writing sockets, is not in it.
func (c config) scriptTimes(ctx context.Context, rdb *redis.Client, lockers []locker) error {
	for _, l := range lockers {
		for _, callers := range []int{1, 256} {
			var acquired, released []float64
			for round := range c.rounds {
				c.progress("server time of %s, %d callers, round %d of %d", l.name, callers, round+1, c.rounds)
				releases := make([]func(context.Context) error, callers)
				errs := make([]error, callers)
				phase := func(do func(caller int) error) float64 {
					scripts, sets := commandTimes(ctx, rdb)
					var wg sync.WaitGroup
					for caller := range callers {
						wg.Go(func() {
							if errs[caller] == nil {
								errs[caller] = do(caller)
							}
						})
					}
					wg.Wait()
					scripts2, sets2 := commandTimes(ctx, rdb)
					if scripts2 > scripts {
						return scripts2 - scripts
					}
					return sets2 - sets
				}
				var took, gave float64
				times := 1024 / callers
				for range times { // few are held at a time, as in life
					took += phase(func(caller int) (err error) {
						releases[caller], err = l.acquire(ctx, fmt.Sprint("times:", caller))
						return err
					})
					gave += phase(func(caller int) error { return releases[caller](ctx) })
				}
				took /= float64(times * callers)
				gave /= float64(times * callers)
				for _, err := range errs {
					if err != nil {
						return fmt.Errorf("%s: %w", l.name, err)
					}
				}
				acquired, released = append(acquired, took), append(released, gave)
				c.raw.Printf("raw\tserver time\t%d callers\t%s\tacquire %.2f us\trelease %.2f us", callers, l.name, took, gave)
			}
			c.progress("")
			c.printf("server us  %4d callers  %-34s acquire %5.1f  release %5.1f", callers, l.name, medianOf(acquired), medianOf(released))
		}
	}
	return nil
}

// commandTimes is how many µs the server has spent in scripts, with what they
// call, and in SET, which counts where no script was called.
func commandTimes(ctx context.Context, rdb *redis.Client) (scripts, sets float64) {
	times := map[string]float64{}
	for line := range strings.Lines(rdb.Info(ctx, "commandstats").Val()) {
		name, fields, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		for f := range strings.SplitSeq(strings.TrimSpace(fields), ",") {
			if us, ok := strings.CutPrefix(f, "usec="); ok {
				times[name], _ = strconv.ParseFloat(us, 64)
			}
		}
	}
	return times["evalsha"] + times["eval"], times["set"]
}
