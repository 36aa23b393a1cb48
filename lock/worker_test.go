package lock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/faults"
)

// workerEnv has the orders of a worker that is a process of its own.
const workerEnv = "LOCK_WORKER"

type orders struct {
	ID                         int
	Invitation, Server, Prefix string
	Names                      map[string][]string
}

// hire starts a worker as a process of its own, which a fault can stop. It works
// from now on until the round is over.
func (c *crew) hire(id int, server string) {
	c.t.Helper()
	text, err := json.Marshal(orders{id, c.Invitation(), server, c.Prefix, c.names})
	must(c.t, err)
	self, err := os.Executable()
	must(c.t, err)
	cmd := exec.CommandContext(c.t.Context(), self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(c.t, err)
	out, err := cmd.StdoutPipe()
	must(c.t, err)
	must(c.t, cmd.Start())
	c.Processes = append(c.Processes, cmd.Process)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var kind string
			var e event
			var call, ret int64
			if _, err := fmt.Sscanf(lines.Text(), lineFormat, &kind, &e.name, &e.what, &e.fence, &e.id, &e.shared, &call, &ret); err != nil {
				ended <- fmt.Errorf("%q: %w", lines.Text(), err)
				return
			}
			returned := time.Time{}
			if ret != 0 {
				returned = time.Unix(0, ret)
			}
			c.histories[kind].add(id, e, time.Unix(0, call), returned)
		}
		ended <- cmd.Wait()
	}()
	c.dismiss = append(c.dismiss, func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			c.t.Errorf("a worker: %v", err)
		}
	})
}

const lineFormat = "%q %q %q %d %q %t %d %d\n"

// beWorker works as a process of its own until its standard input ends, and
// tells what it does.
func beWorker(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	conn, err := faults.Join(o.Invitation)
	if err != nil {
		return err
	}
	w, err := newWorker(o.ID, conn, o.Server, o.Prefix)
	if err != nil {
		return err
	}
	defer w.end()
	var mu sync.Mutex
	w.add = func(kind string, e event, call, ret time.Time) {
		mu.Lock()
		defer mu.Unlock()
		returned := int64(0)
		if !ret.IsZero() {
			returned = ret.UnixNano()
		}
		fmt.Printf(lineFormat, kind, e.name, e.what, e.fence, e.id, e.shared, call.UnixNano(), returned)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	w.work(ctx, uint64(os.Getpid()), o.Names)
	return nil
}
