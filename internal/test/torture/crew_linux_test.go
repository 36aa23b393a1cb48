package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A crew is the workers of a round.
type crew struct {
	s       *site
	seed    uint64
	tag     string
	began   int64
	dir     string // of the sources of caches
	history *history
	hired   int
	members []*member

	mu     sync.Mutex
	faults []string
}

// A member is a worker's process.
type member struct {
	process *os.Process
	in      io.WriteCloser
	stderr  *await.Buffer
	ended   chan struct{} // closed when it has ended and all that it wrote is read
	err     error         // then: how it ended
}

func newCrew(s *site, seed uint64, tag string) *crew {
	c := &crew{s: s, seed: seed, tag: tag, began: now(), dir: s.t.TempDir(), history: &history{events: map[[2]int]event{}}}
	c.members = make([]*member, len(doors))
	for i := range doors {
		c.hire(i)
	}
	return c
}

// hire starts a worker in a place.
func (c *crew) hire(i int) {
	c.hired++
	o, err := json.Marshal(orders{Worker: c.hired, Door: doors[i], URL: c.s.url(i), Masters: c.s.masters, Binary: c.s.binary, Renew: i%2 == 0, Tag: c.tag, Seed: c.seed, Began: c.began, Dir: c.dir})
	must(c.s.t, err)
	self, err := os.Executable()
	must(c.s.t, err)
	m := &member{stderr: new(await.Buffer), ended: make(chan struct{})}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), ordersEnv+"="+string(o))
	cmd.SysProcAttr = redistest.Owned()
	cmd.Stderr = m.stderr
	m.in, err = cmd.StdinPipe()
	must(c.s.t, err)
	out, err := cmd.StdoutPipe()
	must(c.s.t, err)
	must(c.s.t, cmd.Start())
	m.process = cmd.Process
	c.members[i] = m
	go func() {
		defer close(m.ended)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil { // A last line without an end is of a worker that was killed.
				break
			}
			if err := c.history.read(bytes.TrimSpace(line)); err != nil {
				c.fault("%v", err)
			}
		}
		m.err = cmd.Wait()
	}()
}

func (c *crew) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// kill ends a worker by SIGKILL.
func (m *member) kill() {
	_ = m.process.Kill() // It fails only if the process is gone.
	<-m.ended
}

// finish tells the workers that the faults are over, and returns when they have ended.
func (c *crew) finish() {
	for _, m := range c.members {
		_, _ = io.WriteString(m.in, "\n") // It may be gone.
	}
	for i, m := range c.members {
		<-m.ended
		if m.err != nil {
			c.fault("a worker by the %s: %v: %s", doors[i], m.err, strings.TrimSpace(m.stderr.String()))
		}
	}
}

// verify reads all that was added and acknowledged, and counts all visitors.
func (c *crew) verify() {
	url := c.s.library
	if url == "" {
		url = "redis://" + c.s.serve.addr
	}
	l, err := openLibrary(context.Background(), url, false)
	must(c.s.t, err)
	defer l.close()
	w := &line{addr: c.s.serve.addr}
	defer w.close()
	for name, events := range c.history.of(sets) {
		for _, e := range events {
			if e.Return == 0 {
				continue
			}
			d := []door{l, w}[e.M]
			var ok bool
			await.Until(c.s.t, recoverWithin, "the "+e.ID+" is read", func() bool {
				within, cancel := within(context.Background())
				defer cancel()
				ok, err = d.has(within, e.ID, name, e.N)
				return err == nil
			})
			if !ok {
				c.fault("set %s: what was added and acknowledged is not there, or is there twice: %v", name, e)
			}
		}
	}
	p := c.pen()
	for page := range c.history.of(visits) {
		await.Until(c.s.t, recoverWithin, "the visitors are counted", func() bool {
			within, cancel := within(context.Background())
			defer cancel()
			return tally(within, p, l, page) == nil
		})
	}
}

// keyInUse returns a key in the slot of a name that the workers use now.
func (c *crew) keyInUse(i int) string {
	w := &worker{orders: orders{Tag: c.tag, Began: c.began}}
	primitives := []string{locks, stocks, limits}
	return "{" + w.name(random(c.seed, fmt.Sprint("key ", now())), primitives[i%len(primitives)]) + "}"
}

// dismiss ends all workers, also when the round did not finish.
func (c *crew) dismiss() {
	for _, m := range c.members {
		m.kill()
	}
}

// pen is the pen of one more worker.
func (c *crew) pen() *pen {
	c.hired++
	return &pen{worker: c.hired, out: writer(func(line []byte) error { return c.history.read(line) })}
}

// drain takes all messages that are left.
func (c *crew) drain() {
	l := &line{addr: c.s.serve.addr}
	defer l.close()
	p := c.pen()
	name := (&worker{orders: orders{Tag: c.tag}}).queueName()
	left := func() bool {
		got, err := l.taken(context.Background(), p, name, queueLease)
		if err != nil {
			return true
		}
		for _, m := range got {
			_ = l.ack(context.Background(), p, name, m) // Then it comes again.
		}
		info, err := l.fields(context.Background(), "QUEUE.STATS", name)
		return len(got) > 0 || err != nil || integer(info["ready"])+integer(info["due"])+integer(info["running"])+integer(info["dead"]) > 0
	}
	await.Until(c.s.t, recoverWithin, "the queue is empty", func() bool { return !left() })
}

type writer func(line []byte) error

func (w writer) Write(b []byte) (int, error) { return len(b), w(bytes.TrimSpace(b)) }
