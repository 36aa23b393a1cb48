// Schedules runs jobs by the clock, like cron, in a service of several processes: each time of a schedule
// runs once, in whichever process is free.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // on a machine without time zones

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and its relatives
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/server"
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the schedules; $REDOUBT_URL sets the default")
	processes := flag.Int("processes", 3, "how many `processes` to start")
	number := flag.Int("number", 0, "be the process with this `number`, and start no others")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *number, *processes); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string, number, processes int) error {
	if number > 0 {
		return work(ctx, url, number)
	}
	return parent(ctx, url, processes)
}

// work is one process of the service. All processes do the same: each puts the schedules, runs them, and
// takes messages out of the queue. The server takes the message of each time once.
func work(ctx context.Context, url string, number int) error {
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: "example-schedules"})
	if err != nil {
		return err
	}
	defer client.Close()
	jobs, err := queue.New[string](client, queue.Options{OnEvent: func(_ context.Context, e queue.Event) {
		if e.Err != nil {
			log.Printf("process %d: %s: %v", number, e.Kind, e.Err)
		}
	}})
	if err != nil {
		return err
	}
	schedules := queue.NewSchedules(jobs)
	for _, s := range []queue.Schedule[string]{
		{ID: "tick", Every: time.Second, CatchUp: queue.CatchUpSkip, Request: queue.Request[string]{Value: "the clock ticks"}},
		{ID: "report", Cron: "0 9 * * MON-FRI", Zone: "Asia/Shanghai", Request: queue.Request[string]{Value: "the report is written"}},
	} {
		// Each process may put them: a schedule that is there goes on where it stands.
		if _, err := schedules.Put(ctx, "jobs", s); err != nil {
			return err
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scheduled := make(chan error, 1)
	go func() {
		defer cancel() // an error ends the consumer too
		scheduled <- schedules.Run(ctx, "jobs")
	}()
	err = jobs.Run(ctx, "jobs", func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Printf("process %d runs %s: %s\n", number, d.ID, d.Value) // the ID has the entry's ID and the time
		return nil
	}, queue.RunOptions{})
	cancel()
	return errors.Join(err, <-scheduled)
}

// parent starts the processes of the service and stops them when ctx ends.
func parent(ctx context.Context, url string, processes int) error {
	if strings.HasPrefix(url, "embedded:") { // the other processes reach this engine through a server
		srv, err := server.New(ctx, server.Options{URL: url})
		if err != nil {
			return err
		}
		defer srv.Close()
		l, err := srv.Listen("tcp", "127.0.0.1:0") // a free port
		if err != nil {
			return err
		}
		go func() { _ = srv.Serve(l) }() // until Close
		url = "redis://" + l.Addr().String()
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var errs []error
	var started []*exec.Cmd
	for i := range processes {
		cmd := exec.CommandContext(ctx, program, "-url", url, "-number", strconv.Itoa(i+1))
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			errs = append(errs, err)
			continue
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		if err := cmd.Wait(); err != nil && !errors.Is(err, ctx.Err()) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
