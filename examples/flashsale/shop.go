package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/goredis"
)

// shopEnv makes this program a shop. Its value is a config. An argument would show the URL's password
// to all users of the machine.
const shopEnv = "FLASHSALE_SHOP"

// A config tells a shop what to sell and how.
type config struct {
	URL, Sale, Step string
	TTL, Work       time.Duration
	// This payment takes longer than the TTL, and from then on one payment in so many.
	SlowFirst, SlowEvery int
	// The shop is killed when it gets the right to sell for this time; 0: never.
	DieAt int
}

// The lines that a shop prints.
const (
	listening = "listening on "
	paysSlow  = "a slow payment begins"
)

// keys returns the keys of a sale, all in one slot of a cluster.
func keys(sale string) (left, orders, lock string) {
	return "flashsale:{" + sale + "}:left", "flashsale:{" + sale + "}:orders", "flashsale:{" + sale + "}:lock"
}

// runShop sells until its stdin ends. So no shop outlives the program that started it.
func runShop(text string) error {
	var c config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	client, err := goredis.Open(context.Background(), c.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	t := &till{rdb: client.Redis(), name: c.Sale, ttl: c.TTL}
	t.left, t.orders, t.lock = keys(c.Sale)
	var payments, acquired atomic.Int64
	t.charge = func(ctx context.Context) error {
		work := c.Work
		if n := int(payments.Add(1)) - c.SlowFirst; n >= 0 && n%c.SlowEvery == 0 {
			fmt.Println(paysSlow)
			work = c.TTL * 3 / 2
		}
		select {
		case <-time.After(work):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.acquired = func() {
		if int(acquired.Add(1)) == c.DieAt {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "flashsale: the shop can't kill itself:", err)
				return
			}
			select {} // dies here
		}
	}
	var sell seller
	for _, s := range ladder {
		if s.Name == c.Step {
			if sell, err = s.open(t); err != nil {
				return err
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return err
	}
	fmt.Println(listening + l.Addr().String())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy", answer(sell.buy))
	mux.HandleFunc("POST /pay", answer(sell.pay))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	return srv.Serve(l)
}

// answer makes a handler of one step of a sale. The form value buyer says who asks. A sale goes on when the
// buyer hangs up: to stop half-way through would leave a lock behind.
func answer(f func(context.Context, string) (outcome, error)) http.HandlerFunc {
	status := map[outcome]int{sold: http.StatusOK, mustPay: http.StatusAccepted, soldOut: http.StatusConflict, tooLate: http.StatusGone}
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := f(context.WithoutCancel(r.Context()), r.URL.Query().Get("buyer"))
		switch {
		case err == nil:
			w.WriteHeader(status[out])
			_, _ = io.WriteString(w, string(out)) // the buyer may be gone
		case errors.Is(err, errBusy):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}
