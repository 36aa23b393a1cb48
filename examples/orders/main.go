// Orders cancels the orders that nobody pays in time. A shop puts a delayed message for each order; a
// worker in another process gets the message when the time is over, also if the shop is gone by then.
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
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and its relatives
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/server"
	"github.com/redoubt-go/redoubt/stock"
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the orders; $REDOUBT_URL sets the default")
	role := flag.String("role", "", "what this process is: shop, worker, or by default the parent of one shop and one worker")
	pay := flag.Duration("pay", 2*time.Second, "how long a customer may take to pay")
	cancels := flag.Int("cancels", 0, "a worker ends after so many cancelled orders; 0: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *role, *pay, *cancels); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, role string, pay time.Duration, cancels int) error {
	switch role {
	case "":
		return parent(ctx, url, pay)
	case "shop", "worker":
		s, err := openShop(ctx, url, pay)
		if err != nil {
			return err
		}
		defer s.client.Close()
		if role == "shop" {
			return s.sell(ctx)
		}
		return s.work(ctx, cancels)
	}
	return fmt.Errorf("-role is %q; want shop or worker", role)
}

const item = "sku:42"

type order struct {
	ID    string
	Units int64
}

type shop struct {
	client *redoubt.Client
	items  *stock.Inventory
	unpaid *queue.Queue[order]
	pay    time.Duration
}

func openShop(ctx context.Context, url string, pay time.Duration) (s shop, err error) {
	s = shop{pay: pay}
	if s.client, err = redoubt.Open(ctx, url, redoubt.Options{Prefix: "example-orders"}); err != nil {
		return s, err
	}
	// If the shop dies between the reservation and the message, the reservation ends by itself.
	if s.items, err = stock.New(s.client, stock.Options{TTL: pay + time.Minute}); err != nil {
		return s, errors.Join(err, s.client.Close())
	}
	if s.unpaid, err = queue.New[order](s.client, queue.Options{}); err != nil {
		return s, errors.Join(err, s.client.Close())
	}
	return s, nil
}

// sell takes three orders, one of them paid, and ends.
func (s shop) sell(ctx context.Context) error {
	if _, err := s.items.Delete(ctx, item); err != nil { // of an earlier run
		return err
	}
	if _, err := s.items.Set(ctx, item, 10); err != nil {
		return err
	}
	number := time.Now().Format("150405.000") // no order of an earlier run has it
	for i, units := range []int64{2, 3, 4} {
		if err := s.place(ctx, order{ID: fmt.Sprintf("%s-%d", number, i+1), Units: units}); err != nil {
			return err
		}
	}
	if err := s.paid(ctx, number+"-1"); err != nil {
		return err
	}
	fmt.Println("shop: ends")
	return nil
}

func (s shop) place(ctx context.Context, o order) error {
	_, short, err := s.items.ReserveRequest(ctx, item, stock.Request{ID: o.ID, N: o.Units})
	if err != nil {
		return err
	}
	if short != nil {
		fmt.Printf("shop: %s is sold out\n", item)
		return nil
	}
	if _, err := s.unpaid.PutRequest(ctx, "unpaid", queue.Request[order]{ID: o.ID, Value: o, Delay: s.pay}); err != nil {
		return err
	}
	fmt.Printf("shop: order %s, %d units\n", o.ID, o.Units)
	return nil
}

// paid sells the units. After the worker has cancelled the order, Commit returns stock.ErrCancelled, and
// a real shop gives the money back: the stock decides which of the two was first.
func (s shop) paid(ctx context.Context, id string) error {
	if err := s.items.Commit(ctx, item, id); err != nil {
		return err
	}
	if _, err := s.unpaid.Cancel(ctx, "unpaid", id); err != nil { // saves the worker a message
		return err
	}
	fmt.Printf("shop: order %s is paid\n", id)
	return nil
}

// work cancels unpaid orders until ctx ends. A message whose worker dies comes to another worker, so the
// handler may run twice for an order. It does no harm: Cancel may be repeated.
func (s shop) work(ctx context.Context, cancels int) error {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	done := 0
	return s.unpaid.Run(ctx, "unpaid", func(ctx context.Context, d *queue.Delivery[order]) error {
		switch err := s.items.Cancel(ctx, item, d.Value.ID); {
		case errors.Is(err, stock.ErrCommitted), errors.Is(err, stock.ErrNotFound):
			return nil // paid in the last moment, or of an earlier run
		case err != nil && !errors.Is(err, stock.ErrExpired):
			return err // the queue tries again
		}
		fmt.Printf("worker: order %s was not paid, %d units are back\n", d.Value.ID, d.Value.Units)
		if done++; done == cancels {
			enough()
		}
		return nil
	}, queue.RunOptions{Concurrency: 1}) // one at a time: it counts
}

// parent runs a shop and a worker, each in a process of its own.
func parent(ctx context.Context, url string, pay time.Duration) error {
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
	for _, role := range []string{"shop", "worker"} { // the worker begins when the shop is gone
		cmd := exec.CommandContext(ctx, program, "-url", url, "-role", role, "-pay", pay.String(), "-cancels", "2")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
	}
	s, err := openShop(ctx, url, pay)
	if err != nil {
		return err
	}
	defer s.client.Close()
	info, err := s.items.Info(ctx, item)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d units, %d available, %d reserved, %d sold\n", item, info.Total, info.Available, info.Reserved, info.Sold)
	return nil
}
