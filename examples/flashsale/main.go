// Flashsale sells 100 bottles to 20,000 buyers in seven ways, from no lock at all to package stock, and
// shows how each way fails or holds:
//
//	go run . -url embedded:
//	go run . -url redis://127.0.0.1:6379 -step renewed,lock,stock
//
// It starts itself again as shops, the processes that sell over HTTP, and sends them the buyers.
// All ways meet the same trouble: some payments take longer than the lock's time to live, the kernel
// stops a shop for a while, another shop is killed.
//
//   - ladder.go has the seven ways; read it first.
//   - shop.go is a shop: an HTTP server.
//   - buyers.go is the load: buyers that click twice, come again, or do not pay.
//   - sale.go runs a sale: it starts, stops and kills shops, and counts what was sold.
//   - report.go prints and draws the results; page.html shows them live.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/server"
)

func main() {
	var err error
	if config := os.Getenv(shopEnv); config != "" {
		err = runShop(config)
	} else {
		err = run()
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flashsale:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	url                                     string
	steps                                   []step
	buyers, bottles, processes, concurrency int
	ttl, work                               time.Duration
	page, svg                               string
	json                                    bool
}

func parse(args []string) (o options, err error) {
	var names []string
	for _, s := range ladder {
		names = append(names, s.Name)
	}
	flags := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	flags.StringVar(&o.url, "url", "embedded:", "the server: embedded:, embedded:/path, or a URL for Redis or Valkey")
	chosen := flags.String("step", "all", "the ways to sell, separated by commas: all, or some of "+strings.Join(names, ", "))
	flags.IntVar(&o.buyers, "buyers", 20_000, "how many buyers come")
	flags.IntVar(&o.bottles, "bottles", 100, "how many bottles there are")
	flags.IntVar(&o.processes, "processes", 4, "how many shops, each a process of its own")
	flags.IntVar(&o.concurrency, "concurrency", 200, "how many buyers are served at the same time")
	flags.DurationVar(&o.ttl, "ttl", time.Second, "the time to live of the locks; some payments take half as long again")
	flags.DurationVar(&o.work, "work", 10*time.Millisecond, "how long most payments take")
	flags.StringVar(&o.page, "page", "127.0.0.1:0", "the address of the live page; empty for none")
	flags.StringVar(&o.svg, "svg", "", "the file to draw the results in")
	flags.BoolVar(&o.json, "json", false, "print the results as JSON")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		found := false
		for _, s := range ladder {
			if name == "all" || name == s.Name {
				o.steps, found = append(o.steps, s), true
			}
		}
		if !found {
			return o, fmt.Errorf("-step %s: there is no such step; use all, or some of %s", name, strings.Join(names, ", "))
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.bottles < 1 || o.buyers < o.bottles:
		return o, fmt.Errorf("-buyers %d, -bottles %d: at least one bottle, and a buyer for each", o.buyers, o.bottles)
	case o.processes < 2:
		return o, fmt.Errorf("-processes %d: at least 2", o.processes)
	case o.concurrency < 1:
		return o, fmt.Errorf("-concurrency %d: at least 1", o.concurrency)
	case o.ttl < 50*time.Millisecond || o.work < 0 || o.work > o.ttl/2:
		return o, fmt.Errorf("-ttl %v, -work %v: the TTL is at least 50ms, and the work takes at most half of it", o.ttl, o.work)
	}
	return o, nil
}

func run() error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if strings.HasPrefix(o.url, "embedded:") { // the shops are other processes, which reach this engine through a server
		srv, err := server.New(ctx, server.Options{URL: o.url})
		if err != nil {
			return err
		}
		defer srv.Close()
		l, err := srv.Listen("tcp", "127.0.0.1:0") // a free port
		if err != nil {
			return err
		}
		go func() { _ = srv.Serve(l) }() // until Close
		o.url = "redis://" + l.Addr().String()
	}
	show := newBoard(o)
	if o.page != "" {
		url, end, err := show.serve(ctx, o.page)
		if err != nil {
			return err
		}
		defer end()
		fmt.Fprintln(os.Stderr, "live page:", url)
	}
	for _, s := range o.steps {
		result, err := runSale(ctx, o, s, show.update)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		show.update(result)
		show.endLine()
	}
	results := show.results()
	if o.svg != "" {
		if err := os.WriteFile(o.svg, drawing(results), 0o644); err != nil { //nolint:gosec // a picture for everybody
			return err
		}
		fmt.Fprintln(os.Stderr, "drawn:", o.svg)
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	fmt.Print(table(results))
	return nil
}
