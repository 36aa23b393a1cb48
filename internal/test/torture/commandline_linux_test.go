package torture

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A commandLine is a worker that runs the built redoubt.
type commandLine struct{ *worker }

// The exit code of a lock, a token or a message that is not to be had now.
const exitNotNow = 75

func (c *commandLine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Binary, append(args, "--backend="+c.URL)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = redistest.Owned()
	return cmd
}

// commandTTL is long enough that the guard ends a command in time on a busy machine.
const commandTTL = 6 * time.Second

// lock runs a command under a lock.
func (c *commandLine) lock(ctx context.Context) {
	rng := c.random(locks)
	for ctx.Err() == nil {
		name := c.name(rng, locks)
		cmd := c.command(ctx, "lock", name, "--ttl", commandTTL.String(), "--wait", patience.String())
		cmd.Args = append(cmd.Args, "--", "sh", "-c", `echo $REDOUBT_FENCE; read end`)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		call := now()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			c.failed(ctx, locks, err)
			continue
		}
		said, _ := bufio.NewReader(out).ReadString('\n') // Nothing, if it did not run.
		token, err := strconv.ParseInt(strings.TrimSpace(said), 10, 64)
		if err != nil {
			err = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code == exitNotNow {
				c.worked(locks)
			} else {
				c.failed(ctx, locks, fmt.Errorf("redoubt lock: %w: %s", err, stderr.String()))
			}
			continue
		}
		ret := now()
		c.pen.note(event{Primitive: locks, Name: name, What: acquired, N: token, Call: call, Return: ret})
		c.pause(ctx, rng, 30*time.Millisecond)
		over := c.pen.begin(event{Primitive: locks, Name: name, What: ended, N: token})
		_, _ = io.WriteString(in, "end\n") // It may be gone.
		err = cmd.Wait()
		if err != nil { // It was lost, or given back, at any time since.
			over.Call = ret
			c.pen.amend(over)
			c.failed(ctx, locks, fmt.Errorf("redoubt lock: %w: %s", err, stderr.String()))
			continue
		}
		if stderr.Len() > 0 { // It was not released, and stays held for its TTL.
			c.failed(ctx, locks, fmt.Errorf("redoubt lock: %s", stderr.String()))
			continue
		}
		c.pen.end(over, nil)
		c.worked(locks)
	}
}

// limit takes a token.
func (c *commandLine) limit(ctx context.Context) {
	rng := c.random(limits)
	for ctx.Err() == nil {
		e := c.pen.begin(event{Primitive: limits, Name: c.name(rng, limits), What: asked})
		out, err := c.command(ctx, "limit", "try", e.Name, fmt.Sprintf("--rate=%d/s", limitRate), fmt.Sprintf("--burst=%d", limitBurst)).CombinedOutput()
		e.OK = err == nil
		if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == exitNotNow {
			err = nil
		}
		c.pen.end(e, err)
		c.judge(ctx, limits, err, out)
		c.pause(ctx, rng, 100*time.Millisecond)
	}
}

// queue puts a message, or takes one.
func (c *commandLine) queue(ctx context.Context) {
	rng := c.random(queues)
	for n := 1; ctx.Err() == nil; n++ {
		name := c.queueName()
		if rng.IntN(3) > 0 {
			e := c.pen.begin(event{Primitive: queues, Name: name, What: put, ID: fmt.Sprintf("%d-%d", c.Worker, n)})
			out, err := c.command(ctx, "queue", "put", name, e.ID, "--id", e.ID, "--attempts", strconv.Itoa(manyAttempts)).CombinedOutput()
			c.pen.end(e, err)
			c.judge(ctx, queues, err, out)
		} else {
			out, err := c.command(ctx, "queue", "take", name, "--no-wait", "--json").Output()
			// It removes a message once it is printed: nobody knows whether it has.
			var m struct{ ID string }
			if json.Unmarshal(out, &m) == nil {
				c.pen.note(event{Primitive: queues, Name: name, What: took, ID: m.ID, Call: 1, Return: now()})
				c.pen.begin(event{Primitive: queues, Name: name, What: acked, ID: m.ID})
			} else if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != exitNotNow {
				c.failed(ctx, queues, cmp.Or(err, errNothing))
			}
		}
		c.pause(ctx, rng, 100*time.Millisecond)
	}
}

var errNothing = errors.New("redoubt queue take printed nothing")

func (c *commandLine) judge(ctx context.Context, primitive string, err error, out []byte) {
	if err == nil {
		c.worked(primitive)
	} else {
		c.failed(ctx, primitive, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out)))
	}
}
