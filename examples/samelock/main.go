// Samelock takes one lock from Go, Python and Node. The log that the lock protects shows that one of them
// held it at a time.
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// URLs
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/server"
)

var (
	//go:embed worker.py
	workerPy string
	//go:embed worker.js
	workerJS string
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the lock; $REDOUBT_URL sets the default")
	python := flag.String("python", "python3", "`program` that runs Python")
	node := flag.String("node", "node", "`program` that runs JavaScript")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *python, *node); err != nil {
		log.Fatal(err)
	}
}

const (
	prefix = "example-samelock" // the server and the library must have the same
	ledger = "ledger"           // the lock, and the resource that it protects
	book   = "{ledger}:log"     // the resource's key; the braces put it into the slot of the fencing token
)

func run(ctx context.Context, url, python, node string) error {
	// Python and Node have the lock by the commands of a server.
	srv, err := server.New(ctx, server.Options{URL: url, Prefix: prefix})
	if err != nil {
		return err
	}
	defer srv.Close()
	l, err := srv.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		return err
	}
	go func() { _ = srv.Serve(l) }() // until Close
	address := l.Addr().String()
	client, err := redoubt.Open(ctx, "redis://"+address, redoubt.Options{Prefix: prefix})
	if err != nil {
		return err
	}
	defer client.Close()
	locks, err := lock.New(client, lock.Options{TTL: 30 * time.Second, Label: "go", Fair: true})
	if err != nil {
		return err
	}
	guard, err := fence.New(client, fence.Options{})
	if err != nil {
		return err
	}
	if err := client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{book}}).Err; err != nil {
		return err
	}

	// Go holds the lock until all workers are ready.
	lease, err := locks.Acquire(ctx, ledger)
	if err != nil {
		return err
	}
	var workers []*exec.Cmd
	for _, w := range []struct{ name, program, needs, source, option string }{
		{"python", python, "import redis", workerPy, "-c"},
		{"node", node, "require('ioredis')", workerJS, "-e"},
	} {
		if exec.CommandContext(ctx, w.program, w.option, w.needs).Run() != nil {
			fmt.Printf("%s is left out: %s fails in %s\n", w.name, w.needs, w.program)
			continue
		}
		cmd, err := start(ctx, address, w.program, w.option, w.source)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		workers = append(workers, cmd)
	}
	first := lease.Token()
	if err := lease.Release(ctx); err != nil {
		return err
	}

	errs := []error{turns(ctx, locks, guard)}
	for _, cmd := range workers {
		errs = append(errs, cmd.Wait())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := check(ctx, client); err != nil {
		return err
	}
	// A holder that was paused for longer than its lease, and goes on.
	err = write(ctx, guard, first, "is late")
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("the write of a late holder: %w; want fence.ErrStale", err)
	}
	fmt.Println("a late holder is refused:", err)
	return nil
}

// turns is the worker in Go.
func turns(ctx context.Context, locks *lock.Mutex, guard *fence.Guard) error {
	for range 5 {
		lease, err := locks.Acquire(ctx, ledger)
		if err != nil {
			return err
		}
		err = write(ctx, guard, lease.Token(), "begins")
		time.Sleep(5 * time.Millisecond)
		if err := errors.Join(err, write(ctx, guard, lease.Token(), "ends"), lease.Release(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// write writes to the log, unless a holder with a larger token has written already.
func write(ctx context.Context, guard *fence.Guard, token int64, text string) error {
	return guard.Do(ctx, ledger, token, redoubt.Cmd{
		Name: "RPUSH", Keys: []string{book}, Args: []string{fmt.Sprintf("%d go %s", token, text)},
	}).Err
}

// check prints the turns, and fails if two holders wrote at the same time or the tokens fell.
func check(ctx context.Context, client *redoubt.Client) error {
	entries, err := client.Do(ctx, redoubt.Cmd{Name: "LRANGE", Keys: []string{book}, Args: []string{"0", "-1"}, Flags: redoubt.ReadOnly}).Array()
	if err != nil {
		return err
	}
	var last string // tokens have 16 digits each
	for i := 0; i+1 < len(entries); i += 2 {
		begins, ends := fmt.Sprint(entries[i]), fmt.Sprint(entries[i+1])
		who, ok := strings.CutSuffix(begins, " begins")
		if !ok || ends != who+" ends" {
			return fmt.Errorf("two held the lock: %q, then %q", begins, ends)
		}
		if who <= last {
			return fmt.Errorf("the token fell: %q came after %q", who, last)
		}
		last = who
		fmt.Println("token", who)
	}
	fmt.Printf("%d turns, one at a time, with rising tokens\n", len(entries)/2)
	return nil
}

// start starts a worker and waits until it is ready.
func start(ctx context.Context, address, program string, args ...string) (*exec.Cmd, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(err, cmd.Wait())
	}
	return cmd, nil
}
