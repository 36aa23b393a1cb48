package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

const repository = ".."

// TestSnippets runs the snippets of docs/ and README in Python, JavaScript, redis-cli and Lua; package snippets
// says how they are written, and TestGoSnippets runs those in Go. Each language has a server, which is empty
// at the beginning of each page.
func TestSnippets(t *testing.T) {
	t.Parallel()
	t.Run("python", func(t *testing.T) {
		task := newSnippetTask(t, "python", serveEngine(t))
		script, err := filepath.Abs("testdata/snippets/run.py")
		if err != nil {
			t.Fatal(err)
		}
		task.run(t, osexec.CommandContext(t.Context(), programs.Python(t, "redis"), script))
	})
	t.Run("js", func(t *testing.T) {
		node := nodeWith(t, "ioredis")
		task := newSnippetTask(t, "js", serveEngine(t))
		dir := t.TempDir()
		modules, err := filepath.Abs(filepath.Join(clientsDir, "node_modules"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS("testdata/snippets")); err != nil {
			t.Fatal(err)
		}
		for i, s := range task.Snippets {
			writeFile(t, filepath.Join(dir, fmt.Sprintf("snippet%d.mjs", i)), s.Code)
		}
		task.run(t, osexec.CommandContext(t.Context(), node, filepath.Join(dir, "run.mjs")))
	})
	t.Run("redis", runRedisSnippets)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A snippetTask is what a program runs. For each snippet the program prints \x01 and the snippet's index
// on a line, then the snippet's output, and then \x02 and the error if it failed.
type snippetTask struct {
	Port     int           `json:"port"`
	Snippets []snippetCode `json:"snippets"`

	all []snippets.Snippet
}

type snippetCode struct {
	Page  string `json:"page"`
	Where string `json:"where"`
	Code  string `json:"code"`
}

func newSnippetTask(t *testing.T, lang, addr string) snippetTask {
	t.Helper()
	task := snippetTask{Port: portOf(t, addr)}
	for _, s := range snippets.Of(t, repository, lang) {
		if s.NoRun == "" {
			task.all = append(task.all, s)
			task.Snippets = append(task.Snippets, snippetCode{s.File, s.Where(), snippets.WithPort(s.Setup+"\n"+s.Text, task.Port)})
		}
	}
	return task
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// run gives the task to a program and checks what the snippets print.
func (task snippetTask) run(t *testing.T, program *osexec.Cmd) {
	t.Helper()
	in, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(in), &out, &complaints
	err = program.Run()
	parts := strings.Split(out.String(), "\x01")[1:]
	for i, part := range parts {
		_, text, _ := strings.Cut(part, "\n")
		text, fault, failed := strings.Cut(text, "\x02")
		s := task.all[i]
		switch {
		case failed:
			t.Errorf("%s: %s", s.Where(), fault)
		case s.HasOutput && strings.TrimSpace(text) != strings.TrimSpace(s.Output):
			t.Errorf("%s: printed\n%s\nwant\n%s", s.Where(), text, s.Output)
		case !s.HasOutput && text != "":
			t.Errorf("%s: printed this; write it into a fence of output beneath\n%s", s.Where(), text)
		}
	}
	if err != nil || len(parts) != len(task.all) {
		t.Errorf("%d of %d snippets began: %v\n%s", len(parts), len(task.all), err, complaints.String())
	}
	t.Logf("%d snippets", len(parts))
}

// runRedisSnippets sends the commands of a page by one connection and compares what redis-cli prints for
// the replies, by RESP2 and again by RESP3, whose types the page must document. An integer
// of 1000 or more is a time, a token or what is left of one, so any other such integer is equal. A string
// with an ID of 16 or more characters is equal to any other string; later commands with the ID of the page
// are sent with the ID of the reply. So are commands with a string that begins a reply and has "…" in place of the rest.
// A line that is "…" stands for the rest of the reply, and what follows
// two blanks behind a value is a comment.
func runRedisSnippets(t *testing.T) {
	addr := serveEngine(t)
	all := snippets.Of(t, repository, "redis", "lua")
	for _, protocol := range []string{"2", "3"} {
		c, page, n := (*redisSession)(nil), "", 0
		for _, s := range all {
			if s.NoRun != "" {
				continue
			}
			if s.File != page {
				page, c = s.File, dialSession(t, addr)
				c.call([]string{"FLUSHALL"})
				c.call([]string{"HELLO", protocol})
			}
			if s.Lang == "lua" {
				n++
				if got := c.call([]string{"EVAL", s.Setup + "\n" + s.Text, "0"}); strings.Join(got, "\n") != s.Output {
					t.Errorf("%s: replied\n%s\nwant this in a fence of output\n%s", s.Where(), strings.Join(got, "\n"), s.Output)
				}
				continue
			}
			n += c.play(s.Where()+", setup", s.Setup, false)
			n += c.play(s.Where(), s.Text, true)
		}
		t.Logf("RESP%s: %d commands", protocol, n)
	}
}

// A redisSession sends commands and knows which ids of the page stand for which ids of replies.
type redisSession struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	ids  map[string]string
	// types are the types in the last reply, as on the wire.
	types []byte
}

func dialSession(t *testing.T, addr string) *redisSession {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &redisSession{t: t, conn: conn, r: bufio.NewReader(conn), ids: map[string]string{}}
}

// play sends the commands of a page and compares the replies. In a setup a reply may be left out: then it
// must be no error.
func (c *redisSession) play(where, text string, strict bool) (n int) {
	c.t.Helper()
	for i, part := range strings.Split("\n"+text, "\n> ") {
		if i == 0 {
			if part != "" && part != "\n" {
				c.t.Errorf("%s: want a command after \"> \", not %q", where, part)
			}
			continue
		}
		n++
		call, reply, _ := strings.Cut(part, "\n")
		words := c.words(call)
		want, got := strings.Split(strings.TrimRight(reply, "\n"), "\n"), c.call(words)
		if own := command.Lookup(words[0]); own != nil {
			for word, typ := range map[string]string{"map": "%", "boolean": "#", "double": ","} {
				if bytes.Contains(c.types, []byte(typ)) && !strings.Contains(strings.ToLower(own.Reply), word) {
					c.t.Errorf("%s: %s: the reply is a %s in RESP3; its documentation does not say so: %s", where, call, word, own.Reply)
				}
			}
		}
		if reply == "" && !strict && !strings.HasPrefix(got[0], "(error)") {
			continue
		}
		if !c.match(want, got) {
			c.t.Errorf("%s: %s\ngot\n%s\nwant\n%s", where, call, strings.Join(got, "\n"), reply)
		}
	}
	return n
}

// words splits a command as redis-cli does, and puts in the ids of replies.
func (c *redisSession) words(line string) []string {
	c.t.Helper()
	var s resp.CommandScanner
	line = strings.TrimSpace(line)
	if n, err := s.Next([]byte(line + "\r\n")); err != nil || n == 0 {
		c.t.Fatalf("%s: %v", line, err)
	}
	var words []string
	for _, w := range s.Args() {
		word := string(w)
		if id, known := c.ids[word]; known {
			word = id
		}
		words = append(words, word)
	}
	return words
}

// call returns the lines that redis-cli prints.
func (c *redisSession) call(words []string) []string {
	c.t.Helper()
	if _, err := c.conn.Write(resp.AppendCommand(nil, words...)); err != nil {
		c.t.Fatal(err)
	}
	var buf []byte
	for {
		b, err := c.r.ReadByte()
		if err != nil {
			c.t.Fatal(err)
		}
		if buf = append(buf, b); b != '\n' {
			continue
		}
		if v, _, err := resp.Parse(buf); err == nil {
			c.types = nil
			if buf[0] == '+' {
				return []string{v.(string)}
			}
			return c.lines(v, "")
		}
	}
}

// lines formats a reply as redis-cli does for RESP2.
func (c *redisSession) lines(v any, indent string) (lines []string) {
	switch v := v.(type) {
	case nil:
		return []string{"(nil)"}
	case int64:
		return []string{fmt.Sprintf("(integer) %d", v)}
	case bool:
		c.types = append(c.types, '#')
		if v {
			return []string{"(integer) 1"}
		}
		return []string{"(integer) 0"}
	case float64:
		c.types = append(c.types, ',')
		return []string{strconv.Quote(strconv.FormatFloat(v, 'f', -1, 64))}
	case resp.Error:
		return []string{"(error) " + string(v)}
	case resp.Map:
		c.types = append(c.types, '%')
		return c.lines([]any(v), indent)
	case []any:
		if len(v) == 0 {
			return []string{"(empty array)"}
		}
		width := len(strconv.Itoa(len(v)))
		for i, e := range v {
			number := fmt.Sprintf("%*d) ", width, i+1)
			for j, line := range c.lines(e, indent+strings.Repeat(" ", len(number))) {
				switch {
				case j > 0:
					lines = append(lines, line)
				case i > 0:
					lines = append(lines, indent+number+line)
				default:
					lines = append(lines, number+line)
				}
			}
		}
		return lines
	}
	return []string{strconv.Quote(fmt.Sprint(v))}
}

var (
	cliLine   = regexp.MustCompile(`^((?:\s*\d+\) +)*)(\(integer\) -?\d+|\(error\) .*|"(?:[^"\\]|\\.)*"|\S+(?: \S+)*)(?:\s{2,}.*)?$`)
	cliNumber = regexp.MustCompile(`^\(integer\) (\d{4,})$`)
	cliID     = regexp.MustCompile(`[0-9A-Za-z_-]{16,}`)
)

func (c *redisSession) match(want, got []string) bool {
	for i, w := range want {
		if strings.TrimSpace(w) == "…" {
			return i == len(want)-1
		}
		if i >= len(got) {
			return false
		}
		ws, gs := cliLine.FindStringSubmatch(w), cliLine.FindStringSubmatch(got[i])
		if ws == nil || gs == nil || strings.TrimSpace(ws[1]) != strings.TrimSpace(gs[1]) || !c.same(ws[2], gs[2]) {
			return false
		}
	}
	return len(want) == len(got)
}

func (c *redisSession) same(want, got string) bool {
	if want == got {
		return true
	}
	if w, g := cliNumber.FindStringSubmatch(want), cliNumber.FindStringSubmatch(got); w != nil && g != nil {
		if len(w[1]) >= 16 { // a token
			c.ids[w[1]] = g[1]
		}
		return true
	}
	if start, _, cut := strings.Cut(want, "…"); cut {
		word, err := strconv.Unquote(want)
		reply, fault := strconv.Unquote(got)
		if err == nil && fault == nil {
			c.ids[word] = reply
		}
		return strings.HasPrefix(got, start)
	}
	if strings.HasPrefix(want, `"`) && strings.HasPrefix(got, `"`) && cliID.MatchString(want) {
		c.ids[strings.Trim(want, `"`)] = strings.Trim(got, `"`)
		return true
	}
	return false
}
