package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

const commandLine = "command line"

// Exit codes, as docs/cli.md has them.
const (
	exitUsage       = 64
	exitRefused     = 1
	exitUnavailable = 69
	exitNotNow      = 75
)

// commandLines is the way in of the command line. By it the embedded engine is one with
// a directory, which belongs to one process at a time.
func commandLines() []way {
	return []way{{name: commandLine, open: onCommandLine}}
}

// A cli is the command line on one back end.
type cli struct {
	url string
	// dir is set for an embedded engine instead: its parent.
	dir string
	// seen is a client of the library with the same keys, to look for waiters; nil with dir.
	seen *redoubt.Client
}

func onCommandLine(t *testing.T, on *reach) *door {
	c, names := &cli{url: on.url}, redistest.NewPrefix()
	if on.engine != nil {
		c.dir = t.TempDir()
	} else {
		c.seen = opened(t, on.url)
	}
	d := &door{}
	for i, p := range []struct {
		name string
		hold func(c *cli, t *testing.T, name string) error
	}{
		{exclusion, (*cli).exclusion},
		{wakeUp, (*cli).wakeUp},
		{fairness, (*cli).fairness},
		{fencing, (*cli).fencing},
		{semaphore, (*cli).semaphore},
		{readersWriters, (*cli).readersWriters},
		{tokenBucket, (*cli).tokenBucket},
		{queueBlock, (*cli).queueBlock},
		{queueDelay, (*cli).queueDelay},
		{stockSold, (*cli).stockSold},
		{cacheLocal, (*cli).cacheLocal},
		{scanKeys, (*cli).scanKeys},
		{serveStarts, (*cli).serveStarts},
	} {
		switch {
		case p.name == cacheLocal && c.dir != "":
			continue // the program can't have the directory too
		case p.name == serveStarts && on.serve:
			continue // this is it already
		}
		d.promises = append(d.promises, promise{p.name, func(t *testing.T) error {
			own := *c
			name := fmt.Sprint(names, "-", i)
			if own.dir != "" {
				own.url = "embedded:" + filepath.Join(own.dir, name)
			}
			return p.hold(&own, t, name)
		}})
	}
	return d
}

// A process is a redoubt that runs.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer // to be read when it has ended
	ended          chan struct{}
}

// start starts redoubt with words, the back end behind the first, and then more arguments.
func (c *cli) start(t *testing.T, words string, more ...string) *process {
	t.Helper()
	args := append(strings.Fields(words), "--prefix="+prefix, "--backend="+c.url)
	if strings.HasPrefix(words, "scan") || strings.HasPrefix(words, "del") {
		args = append(strings.Fields(words), "--backend="+c.url) // their keys have any prefix
	}
	p := &process{cmd: exec.CommandContext(context.Background(), binary, append(args, more...)...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = environ(), &p.stdout, &p.stderr, redistest.Owned()
	must(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // How it ended is in its ProcessState.
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// wait returns the exit code once the process has ended, which is to be prompt.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	next(t, "the end of redoubt "+strings.Join(p.cmd.Args[1:], " "), p.ended)
	return p.cmd.ProcessState.ExitCode()
}

// run runs redoubt to its end, wants an exit code, and returns what it printed.
func (c *cli) run(t *testing.T, want int, words string, more ...string) (stdout string) {
	t.Helper()
	p := c.start(t, words, more...)
	if code := p.wait(t); code != want {
		t.Errorf("redoubt %s: exit code %d, want %d: %s", strings.Join(p.cmd.Args[1:], " "), code, want, p.stderr.String())
	}
	return strings.TrimSpace(p.stdout.String())
}

// hold starts a process that has a lock until free is called.
func (c *cli) hold(t *testing.T, words string) (free func()) {
	t.Helper()
	dir := t.TempDir()
	isHeld, end := filepath.Join(dir, "held"), filepath.Join(dir, "end")
	p := c.start(t, words, "--", "sh", "-c", `touch "$1"; until test -e "$2"; do sleep 0.02; done`, "sh", isHeld, end)
	await.Soon(t, "redoubt "+words+" has it", func() bool {
		_, err := os.Stat(isHeld)
		return err == nil
	})
	return func() {
		t.Helper()
		must(t, os.WriteFile(end, nil, 0o600))
		if code := p.wait(t); code != 0 {
			t.Errorf("redoubt %s: exit code %d: %s", words, code, p.stderr.String())
		}
	}
}

// refusal returns the error of a command beside another process that has the directory, and
// nil where there is none.
func (c *cli) refusal(t *testing.T, words string, more ...string) error {
	t.Helper()
	if c.dir == "" {
		return nil
	}
	p := c.start(t, words, more...)
	if code := p.wait(t); code != exitUnavailable {
		t.Errorf("redoubt %s: exit code %d, want %d", words, code, exitUnavailable)
	}
	return p.text(c.url)
}

var pid = regexp.MustCompile(`process \d+`)

// text is what a process that has ended said in its first line, without what is another each
// time. Behind it may be where help is.
func (p *process) text(url string) error {
	text, _, _ := strings.Cut(strings.TrimPrefix(p.stderr.String(), "redoubt: "), "\n")
	text = strings.ReplaceAll(text, strings.TrimPrefix(url, "embedded:"), "/path")
	return errors.New(pid.ReplaceAllString(text, "process 4711"))
}

// waiting returns once n wait for a lock.
func (c *cli) waiting(t *testing.T, name string, n int64) {
	t.Helper()
	waiting(t, mutex(t, c.seen, lock.Options{}), name, n)
}

func (c *cli) exclusion(t *testing.T, name string) error {
	inside := filepath.Join(t.TempDir(), "inside")
	if c.dir != "" {
		free := c.hold(t, "lock "+name)
		defer free()
		return c.refusal(t, "lock "+name, "--", "true")
	}
	var all []*process
	for range 4 { // mkdir fails where it is
		all = append(all, c.start(t, "lock "+name, "--", "sh", "-c", `mkdir "$1" && sleep 0.05 && rmdir "$1"`, "sh", inside))
	}
	for _, p := range all {
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
	}
	free := c.hold(t, "lock "+name)
	c.run(t, exitNotNow, "lock "+name+" --wait=50ms", "--", "true")
	free()
	return nil
}

func (c *cli) wakeUp(t *testing.T, name string) error {
	free := c.hold(t, "lock "+name+" --ttl=2m")
	if c.dir != "" {
		defer free()
		return c.refusal(t, "lock "+name, "--", "true")
	}
	p := c.start(t, "lock "+name, "--", "true")
	c.waiting(t, name, 1)
	free()
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	return nil
}

func (c *cli) fairness(t *testing.T, name string) error {
	free := c.hold(t, "lock "+name+" --fair --ttl=2m")
	if c.dir != "" {
		defer free()
		return c.refusal(t, "lock "+name+" --fair", "--", "true")
	}
	file := filepath.Join(t.TempDir(), "order")
	var all []*process
	for i := range 3 {
		all = append(all, c.start(t, "lock "+name+" --fair --ttl=2m", "--", "sh", "-c", `printf %s "$2" >> "$1"`, "sh", file, strconv.Itoa(i)))
		c.waiting(t, name, int64(i+1))
	}
	free()
	for _, p := range all {
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
	}
	if order, err := os.ReadFile(file); string(order) != "012" || err != nil {
		t.Errorf("they queued as 012 and were served as %s, %v", order, err)
	}
	return nil
}

func (c *cli) fencing(t *testing.T, name string) error {
	var tokens []int64
	for range 2 {
		token, err := strconv.ParseInt(c.run(t, 0, "lock "+name, "--", "sh", "-c", "echo $REDOUBT_FENCE"), 10, 64)
		must(t, err)
		tokens = append(tokens, token)
	}
	if tokens[0] >= tokens[1] {
		t.Errorf("the tokens are %v", tokens)
	}
	if c.dir != "" {
		return nil
	}
	free := c.hold(t, "lock "+name)
	c.run(t, exitNotNow, fmt.Sprintf("lock release %s --force --fence=%d", name, tokens[1]))
	free()
	return nil
}

func (c *cli) semaphore(t *testing.T, name string) error {
	free := c.hold(t, "lock "+name+" --semaphore=2 --ttl=2m")
	if c.dir != "" {
		defer free()
		return c.refusal(t, "lock "+name+" --semaphore=2", "--", "true")
	}
	another := c.hold(t, "lock "+name+" --semaphore=2")
	p := c.start(t, "lock "+name+" --semaphore=2", "--", "true")
	permits, err := lock.NewSemaphore(c.seen, lock.SemaphoreOptions{})
	must(t, err)
	await.Soon(t, "one waits", func() bool {
		info, err := permits.Info(t.Context(), name)
		must(t, err)
		return info.Waiters == 1
	})
	free()
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	another()
	return nil
}

func (c *cli) readersWriters(t *testing.T, name string) error {
	free := c.hold(t, "lock "+name+" --shared --ttl=2m")
	if c.dir != "" {
		defer free()
		return c.refusal(t, "lock "+name+" --shared", "--", "true")
	}
	another := c.hold(t, "lock "+name+" --shared --ttl=2m")
	p := c.start(t, "lock "+name, "--", "true")
	c.waiting(t, name, 1)
	free()
	await.Always(t, stays, "the writer waits beside a reader", func() bool {
		select {
		case <-p.ended:
			return false
		default:
			return true
		}
	})
	another()
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	return nil
}

func (c *cli) tokenBucket(t *testing.T, name string) error {
	for _, want := range []int{0, 0, exitNotNow} {
		c.run(t, want, "limit try "+name+" --rate=1/h --burst=2")
	}
	c.run(t, 0, "limit reset "+name)
	c.run(t, 0, "limit try "+name+" --rate=1/h --burst=2 --n=2")
	return nil
}

func (c *cli) queueBlock(t *testing.T, name string) error {
	if c.dir != "" {
		free := c.hold(t, "lock "+name)
		defer free()
		return c.refusal(t, "queue take "+name+" --wait=2m")
	}
	p := c.start(t, "queue take "+name+" --wait=2m")
	c.run(t, 0, "queue stats "+name) // by then the other waits, most of the time
	c.run(t, 0, "queue put "+name+" hello")
	if code := p.wait(t); code != 0 || strings.TrimSpace(p.stdout.String()) != "hello" {
		t.Errorf("exit code %d, %q: %s", code, p.stdout.String(), p.stderr.String())
	}
	return nil
}

func (c *cli) queueDelay(t *testing.T, name string) error {
	const delay = 300 * time.Millisecond
	began := time.Now()
	c.run(t, 0, "queue put "+name+" hello --delay=300ms")
	if got := c.run(t, 0, "queue take "+name+" --wait=2m"); got != "hello" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("the message was there after %v, want it after %v", took, delay)
	}
	return nil
}

func (c *cli) stockSold(t *testing.T, name string) error {
	c.run(t, 0, "stock set "+name+" 3")
	c.run(t, exitRefused, "stock add "+name, "--", "-4")
	c.run(t, 0, "stock add "+name, "--", "-1")
	if got := c.run(t, 0, "stock info "+name+" --json"); !strings.Contains(got, `"available": 2`) {
		t.Errorf("got %s", got)
	}
	return nil
}

// cacheLocal is about a program with a local level.
func (c *cli) cacheLocal(t *testing.T, name string) error {
	program, s := cached(t, c.seen, name, 100), &source{}
	s.value.Store("old")
	answersLocally(t, program, "42", s)
	s.value.Store("new")
	c.run(t, 0, "cache invalidate "+name+" 42")
	await.Until(t, prompt, "the program has heard of it", func() bool { return got(t, program, "42", s) == "new" })
	return nil
}

func (c *cli) scanKeys(t *testing.T, name string) error {
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if c.dir == "" {
				c.run(t, 0, fmt.Sprintf("queue put %s-%d hello", name, i))
			}
		})
	}
	wg.Wait()
	if c.dir != "" {
		c.run(t, 0, "stock set "+name+" 3")
	}
	p := c.start(t, "scan --match=*"+name+"*")
	if code := p.wait(t); code == exitUnavailable {
		return p.text(c.url)
	} else if code != 0 || !strings.Contains(p.stdout.String(), name) {
		t.Errorf("exit code %d, %q: %s", code, p.stdout.String(), p.stderr.String())
	}
	c.run(t, 0, "del --match=*"+name+"* --force")
	if got := c.run(t, 0, "scan --match=*"+name+"*"); got != "" {
		t.Errorf("after del there are %q", got)
	}
	return nil
}

func (c *cli) serveStarts(t *testing.T, _ string) error {
	addr := freeAddr(t)
	p := c.start(t, "serve --http= --listen="+addr)
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	ended := false
	await.Soon(t, "it answers or ends", func() bool {
		select {
		case <-p.ended:
			ended = true
			return true
		default:
			return rdb.Ping(t.Context()).Err() == nil
		}
	})
	if !ended {
		return nil
	}
	if code := p.wait(t); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	return p.text(c.url)
}
