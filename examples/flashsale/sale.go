package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/stock"
)

// A result is what one sale has come to, so far or at its end.
type result struct {
	step
	Running bool  `json:"running"`
	Bottles int64 `json:"bottles"`
	Buyers  int64 `json:"buyers"`
	Served  int64 `json:"served"` // buyers that have an answer
	// Sold and Left are the server's: orders, and bottles that are still on sale.
	Sold int64 `json:"sold"`
	Left int64 `json:"left"`
	// Oversold is how many bottles too many were sold: Sold and Left should add up to Bottles.
	Oversold int64 `json:"oversold"`
	// Twice is how many bottles went to buyers that had one.
	Twice   int64 `json:"twice"`
	Refused int64 `json:"refused"` // buyers that came too late
	Errors  int64 `json:"errors"`  // buyers without any other answer
	// P50 and P99 are of all answers; Took is until the last bottle was sold.
	P50  milliseconds `json:"p50_ms"`
	P99  milliseconds `json:"p99_ms"`
	Took milliseconds `json:"took_ms"`
	// Stuck tells that nothing but errors came any more, so the sale was ended.
	Stuck   bool `json:"stuck"`
	Stopped bool `json:"stopped"` // a shop was stopped for a while
	Killed  bool `json:"killed"`  // a shop was killed
}

// milliseconds is a time as JSON has it.
type milliseconds float64

func ms(d time.Duration) milliseconds {
	return milliseconds(d.Round(10*time.Microsecond).Seconds() * 1e3)
}

// A sale is one sale under way.
type sale struct {
	options
	step
	name    string
	rdb     redis.UniversalClient
	items   *stock.Inventory // of the step stock
	crowd   *crowd
	begin   time.Time
	killed  atomic.Bool
	stopped atomic.Bool
	stuck   atomic.Bool

	ending atomic.Bool
	wg     sync.WaitGroup
	mu     sync.Mutex
	shops  []*shop // guarded by mu
	err    error   // of a shop, guarded by mu
}

// A shop is a process that sells.
type shop struct {
	address string // empty until it listens
	process *os.Process
	stdin   io.Closer
}

// runSale sells all bottles in one way and reports how far it is to update.
func runSale(ctx context.Context, o options, st step, update func(result)) (r result, err error) {
	client, err := goredis.Open(ctx, o.url)
	if err != nil {
		return r, err
	}
	defer client.Close()
	s := &sale{options: o, step: st, name: "flashsale-" + rand.Text()[:8], rdb: client.Redis(), shops: make([]*shop, o.processes)}
	if err := s.stockUp(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.cleanUp(context.WithoutCancel(ctx))) }()
	defer s.closeShops()
	for i := range s.shops {
		// One shop dies early in the sale: after the first slow payment another shop's DEL could delete
		// the lock that it leaves behind in the step setnx.
		dieAt := 0
		if i == 1 {
			dieAt = max(2, o.bottles/o.processes/8)
		}
		if err := s.startShop(ctx, i, dieAt); err != nil {
			return r, err
		}
	}
	s.crowd = newCrowd(o.processes, o.concurrency, 12*o.ttl, s.address)
	s.begin = time.Now()
	coming, end := context.WithCancel(ctx)
	defer end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.letCome(coming)
	}()
	for tick := time.Tick(200 * time.Millisecond); ; {
		select {
		case <-tick:
		case <-done:
			return s.result(ctx, false)
		}
		if quiet := time.Since(time.Unix(0, s.crowd.lastAnswer.Load())); quiet > 8*o.ttl && ctx.Err() == nil {
			s.stuck.Store(true)
			end()
		}
		now, err := s.result(ctx, true)
		if err == nil {
			err = s.failure()
		}
		if err != nil {
			end()
			<-done
			return r, err
		}
		update(now)
	}
}

// stockUp puts the bottles on sale.
func (s *sale) stockUp(ctx context.Context) error {
	if s.Name != "stock" {
		left, _, _ := keys(s.name)
		return s.rdb.Set(ctx, left, s.bottles, 0).Err()
	}
	client, err := wrap(s.rdb)
	if err != nil {
		return err
	}
	if s.items, err = stock.New(client, stock.Options{}); err != nil {
		return err
	}
	_, err = s.items.Set(ctx, s.name, int64(s.bottles))
	return err
}

// cleanUp leaves nothing of the sale on the server. The key of package lock expires in a minute.
func (s *sale) cleanUp(ctx context.Context) error {
	left, orders, lock := keys(s.name)
	err := s.rdb.Del(ctx, left, orders, lock).Err()
	switch s.Name {
	case "stock":
		_, deleteErr := s.items.Delete(ctx, s.name)
		err = errors.Join(err, deleteErr)
	case "lock":
		client, wrapErr := wrap(s.rdb)
		if wrapErr != nil {
			return errors.Join(err, wrapErr)
		}
		guard, guardErr := fence.New(client, fence.Options{})
		if guardErr != nil {
			return errors.Join(err, guardErr)
		}
		_, deleteErr := guard.Delete(ctx, s.name)
		err = errors.Join(err, deleteErr)
	}
	return err
}

// letCome lets all buyers come. Of the refused ones some come again when unpaid bottles are back on sale.
func (s *sale) letCome(ctx context.Context) {
	buyers := make([]int, s.buyers)
	for i := range buyers {
		buyers[i] = i
	}
	s.crowd.come(ctx, buyers, s.concurrency)
	if s.items == nil {
		return
	}
	s.crowd.allPay.Store(true)
	again := s.crowd.turnedAway()
	for len(again) > 0 {
		info, err := s.items.Info(ctx, s.name)
		if err != nil || info.Available+info.Reserved == 0 {
			return // runSale meets the error too
		}
		if info.Available == 0 {
			select {
			case <-time.After(info.Next):
			case <-ctx.Done():
				return
			}
		}
		batch := again[:min(2*s.bottles, len(again))]
		again = again[len(batch):]
		s.crowd.served.Add(-int64(len(batch)))
		s.crowd.refused.Add(-int64(len(batch)))
		s.crowd.come(ctx, batch, s.concurrency)
	}
}

// result counts.
func (s *sale) result(ctx context.Context, running bool) (result, error) {
	c := s.crowd
	r := result{
		step: s.step, Running: running, Bottles: int64(s.bottles), Buyers: int64(s.buyers),
		Served: c.served.Load(), Refused: c.refused.Load(), Errors: c.failed.Load(),
		Stuck: s.stuck.Load(), Stopped: s.stopped.Load(), Killed: s.killed.Load(),
	}
	p50, p99 := c.quantiles()
	r.P50, r.P99 = ms(p50), ms(p99)
	if last := c.lastSale.Load(); last != 0 {
		r.Took = ms(time.Unix(0, last).Sub(s.begin))
	}
	if !running {
		r.Errors += r.Buyers - r.Served // nobody served them: the sale was ended
	}
	if s.items != nil {
		info, err := s.items.Info(ctx, s.name)
		r.Sold, r.Left = info.Sold, info.Available+info.Reserved
		if r.Oversold = r.Sold + r.Left - r.Bottles; !running {
			r.Twice = max(0, r.Sold-int64(c.happy()))
		}
		return r, err
	}
	left, orders, _ := keys(s.name)
	var number *redis.StringCmd
	var count *redis.IntCmd
	if _, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		number, count = p.Get(ctx, left), p.LLen(ctx, orders)
		return nil
	}); err != nil {
		return r, err
	}
	n, err := number.Int64()
	if err != nil {
		return r, err
	}
	r.Sold, r.Left = count.Val(), n
	r.Oversold = r.Sold + r.Left - r.Bottles
	if !running {
		buyers, err := s.rdb.LRange(ctx, orders, 0, -1).Result()
		if err != nil {
			return r, err
		}
		slices.Sort(buyers)
		r.Twice = r.Sold - int64(len(slices.Compact(buyers)))
	}
	return r, nil
}

// startShop starts a shop and waits until it listens. When it dies it is started again.
func (s *sale) startShop(ctx context.Context, i, dieAt int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	// The shops' slow payments do not all come at the same time.
	slowEvery := max(2, s.bottles/s.processes/2)
	text, err := json.Marshal(config{
		URL: s.url, Sale: s.name, Step: s.Name, TTL: s.ttl, Work: s.work,
		SlowFirst: slowEvery + i*slowEvery/s.processes, SlowEvery: slowEvery, DieAt: dieAt,
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), shopEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	sh := &shop{process: cmd.Process, stdin: stdin}
	s.mu.Lock()
	s.shops[i] = sh
	s.mu.Unlock()
	if s.ending.Load() { // closeShops may have missed this one
		sh.end()
	}
	listens := make(chan bool, 1)
	s.wg.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if address, ok := strings.CutPrefix(lines.Text(), listening); ok {
				s.mu.Lock()
				sh.address = address
				s.mu.Unlock()
				listens <- true
			} else if lines.Text() == paysSlow {
				s.stop(cmd.Process)
			}
		}
		close(listens)
		err := cmd.Wait()
		if s.ending.Load() || ctx.Err() != nil {
			return
		}
		if dieAt > 0 {
			s.killed.Store(true)
			err = s.startShop(ctx, i, 0)
		} else if err == nil {
			err = errors.New("a shop ended by itself")
		}
		if err != nil {
			s.mu.Lock()
			s.err = errors.Join(s.err, err)
			s.mu.Unlock()
		}
	})
	if !<-listens {
		return errors.New("a shop did not start")
	}
	return nil
}

// stop stops one shop of the sale, once, for three TTLs: in the middle of a slow payment.
func (s *sale) stop(p *os.Process) {
	if s.stopped.Swap(true) {
		return
	}
	if err := pause(p); err != nil {
		s.stopped.Store(false)
		return
	}
	s.wg.Go(func() {
		time.Sleep(3 * s.ttl)
		_ = resume(p) // it may have been killed
	})
}

func (s *sale) address(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shops[i].address
}

func (s *sale) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// closeShops ends all shops.
func (s *sale) closeShops() {
	s.ending.Store(true)
	s.mu.Lock()
	shops := slices.Clone(s.shops)
	s.mu.Unlock()
	for _, sh := range shops {
		if sh != nil {
			sh.end()
		}
	}
	s.wg.Wait()
}

func (sh *shop) end() {
	_ = sh.stdin.Close()  // ends a shop
	_ = sh.process.Kill() // also a stopped one
}

func (r result) status() string {
	return fmt.Sprintf("%-8s %d of %d buyers, %d of %d bottles sold, %d oversold, %d refused, %d errors",
		r.Name, r.Served, r.Buyers, r.Sold, r.Bottles, r.Oversold, r.Refused, r.Errors)
}
