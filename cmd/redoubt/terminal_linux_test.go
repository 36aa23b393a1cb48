package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A terminal is a pseudo-terminal that a program runs on.
type terminal struct {
	t              *testing.T
	master, slave  *os.File
	cmd            *exec.Cmd
	before         unix.Termios
	mu             sync.Mutex
	written        []byte // guarded by mu
	closed, exited chan struct{}
}

// onTerminal starts redoubt on a new terminal of 80 columns and 24 lines.
func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return onTerminalWith(t, nil, 80, env, args...)
}

// onTerminalWith starts redoubt on a new terminal. Its output goes to stdout unless that is nil.
func onTerminalWith(t *testing.T, stdout *os.File, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	c := newTerminal(t, columns)
	c.cmd = exec.CommandContext(t.Context(), binary, args...)
	c.cmd.Env = append(environ(env...), "TERM=xterm")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.slave, c.slave, c.slave
	if stdout != nil {
		c.cmd.Stdout = stdout
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // the exit code is in ProcessState
		close(c.exited)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
	})
	return c
}

// newTerminal opens a terminal of 24 lines.
func newTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(err)
	must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	c := &terminal{t: t, master: master, slave: slave, closed: make(chan struct{}), exited: make(chan struct{})}
	c.resize(columns, 24)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	must(err)
	c.before = *before
	go func() {
		defer close(c.closed)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			c.mu.Lock()
			c.written = append(c.written, b[:n]...)
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
		<-c.closed
	})
	return c
}

func (c *terminal) resize(columns, lines uint16) {
	c.t.Helper()
	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.written)
}

// screen returns the lines of the last whole frame, without colors.
func (c *terminal) screen() []string {
	frames := strings.Split(c.text(), "\x1b[H")
	for i := len(frames) - 1; i > 0; i-- {
		if frame, _, whole := strings.Cut(frames[i], "\x1b[J"); whole {
			return strings.Split(regexp.MustCompile(`\x1b\[[0-9;]*[mK]`).ReplaceAllString(frame, ""), "\r\n")
		}
	}
	return nil
}

// shows waits until a line of the screen has all of these words.
func (c *terminal) shows(words ...string) {
	c.t.Helper()
	eventually(c.t, "the screen shows "+strings.Join(words, ", "), func() bool {
		for _, line := range c.screen() {
			all := true
			for _, word := range words {
				all = all && strings.Contains(line, word)
			}
			if all {
				return true
			}
		}
		return false
	})
}

func (c *terminal) types(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// restored checks that the program has ended with code and left the terminal as it was.
func (c *terminal) restored(code int) {
	c.t.Helper()
	eventually(c.t, "it ends", func() bool {
		select {
		case <-c.exited:
			return true
		default:
			return false
		}
	})
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit %d; want %d: %q", got, code, c.text())
	}
	c.isAsBefore()
}

// isAsBefore checks that the terminal is as it was before the program.
func (c *terminal) isAsBefore() {
	c.t.Helper()
	after, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	if *after != c.before {
		c.t.Errorf("the terminal's settings are %+v; before %+v", *after, c.before)
	}
	eventually(c.t, "the cursor and the first screen are back", func() bool {
		_, rest, ok := strings.Cut(c.text(), "\x1b[?25h\x1b[?1049l")
		return ok && !strings.Contains(rest, "\x1b")
	})
}

// TestTop runs top on a terminal: lists, keys, a resize, and every way out.
func TestTop(t *testing.T) {
	r := redistest.Start(t)
	env := []string{"REDOUBT_BACKEND=" + r.URL()}
	for _, args := range [][]string{
		{"queue", "put", "邮件队列", "hello"}, {"queue", "pause", "邮件队列"}, {"stock", "set", "sku:42", "100"}, {"limit", "try", "mail:42", "--rate", "1/h"},
	} {
		if code, _, stderr := runToEnd(t, env, args...); code != 0 {
			t.Fatalf("redoubt %q: exit %d, %s", args, code, stderr)
		}
	}
	c := onTerminal(t, env, "top", "--interval", "100ms")
	c.shows("redoubt top", "Redis 7")
	c.shows("邮件队列", "1", "paused")
	if !strings.Contains(c.text(), "\x1b[1m") {
		t.Error("it has no colors on a terminal")
	}
	if n := len(c.screen()); n != 24 {
		t.Errorf("%d lines", n)
	}
	c.types("\x1b[D") // the list before the first is the last
	c.shows("sku:42", "100")
	c.types("3")
	c.shows("mail:42", "limiter")
	c.types("\x1b[D")
	c.shows("there are none: redoubt lock deploy")
	c.resize(30, 8)
	eventually(t, "it is smaller", func() bool {
		lines := c.screen()
		for _, line := range lines {
			if uniseg.StringWidth(line) > 30 {
				return false
			}
		}
		return len(lines) == 8
	})
	c.types("q")
	c.restored(0)

	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 128 + 15, syscall.SIGHUP: 128 + 1, syscall.SIGQUIT: 128 + 3} {
		c := onTerminal(t, append(env, "NO_COLOR=1"), "top")
		c.shows("邮件队列")
		if strings.Contains(c.text(), "\x1b[1m") {
			t.Error("it has colors in spite of NO_COLOR")
		}
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.restored(code)
	}
	c = onTerminal(t, env, "top")
	c.shows("邮件队列")
	c.types("\x03")
	c.restored(0)

	code, out, _ := runToEnd(t, env, "top", "--json")
	var s struct {
		Server loadState
		Queues []queueState
		Locks  []lockState
		Items  []itemState
		Limits []limitListed
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || s.Server.Keys == 0 || s.Server.Clients == 0 ||
		len(s.Queues) != 1 || s.Locks == nil || len(s.Items) != 1 || len(s.Limits) != 1 {
		t.Errorf("top --json: exit %d, %v, %s", code, err, out)
	}
}

// TestTopRestoresAfterAPanic: a panic in the goroutine that asks the server leaves the terminal as it was, and shows
// where it was.
func TestTopRestoresAfterAPanic(t *testing.T) {
	client, err := redoubt.Open(t.Context(), "embedded:", redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	rows := topViews[0].rows
	defer func() { topViews[0].rows = rows }()
	topViews[0].rows = func(context.Context, *redoubt.Client) ([][]string, error) { panic("a row too many") }

	c := newTerminal(t, 80)
	said := func() (p any) {
		defer func() { p = recover() }()
		return (&top{client: client, interval: time.Second}).run(c.slave, c.slave)
	}()
	if text, _ := said.(string); !strings.HasPrefix(text, "a row too many\n") || !strings.Contains(text, "TestTopRestoresAfterAPanic") {
		t.Errorf("it ends with %v; want the panic with its stack", said)
	}
	c.isAsBefore()
	c.types("q\n") // ends the read that run leaves behind, which holds the terminal open
}

// TestProgressOnTerminal: the bar stays on one line of a narrow terminal, and isn't drawn beside a pager, which
// reads the output from a pipe and draws on the same terminal.
func TestProgressOnTerminal(t *testing.T) {
	env := []string{"REDOUBT_BACKEND=" + redistest.Start(t).URL()}
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(strings.Repeat("a message\n", 5*putChunk)), 0o600); err != nil {
		t.Fatal(err)
	}
	ends := func(c *terminal) string {
		t.Helper()
		eventually(t, "it ends", func() bool {
			select {
			case <-c.exited:
				return true
			default:
				return false
			}
		})
		return c.text()
	}
	const columns = 24
	drawn := false
	c := onTerminalWith(t, nil, columns, env, "queue", "put", "mail", "--lines", file)
	eventually(t, "it says how many it put", func() bool { return strings.Contains(c.text(), "put 5000 messages") })
	for line := range strings.SplitSeq(ends(c), "\r") {
		drawn = drawn || strings.Contains(line, "putting")
		if line = strings.TrimPrefix(line, "\n"); strings.Contains(line, "\n") && strings.Contains(line, "putting") || !strings.HasPrefix(line, "put ") && uniseg.StringWidth(line) >= columns {
			t.Errorf("the bar is %q on %d columns", line, columns)
		}
	}
	if !drawn {
		t.Errorf("no bar in %q", c.text())
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	if text := ends(onTerminalWith(t, write, 80, env, "queue", "put", "mail", "--lines", file)); text != "" {
		t.Errorf("beside a pipe it drew %q", text)
	}
	_ = write.Close()
	if text, err := io.ReadAll(read); err != nil || !strings.HasPrefix(string(text), "put 5000 messages") {
		t.Errorf("into the pipe it wrote %q, %v", text, err)
	}
}

// TestHelpOnTerminal: help is as wide as the terminal.
func TestHelpOnTerminal(t *testing.T) {
	c := onTerminalWith(t, nil, 50, nil, "queue", "dead", "--help")
	eventually(t, "it prints its help", func() bool { return strings.Contains(c.text(), "--no-color") })
	mustContain(t, "help", c.text(), "\x1b[1mUsage:\x1b[0m")
	for line := range strings.SplitSeq(regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(c.text(), ""), "\r\n") {
		if uniseg.StringWidth(line) > 50 && !strings.HasPrefix(line, "  redoubt") {
			t.Errorf("on 50 columns: %q", line)
		}
	}
}
