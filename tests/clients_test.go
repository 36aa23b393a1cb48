package tests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// TestClients: redis-py, ioredis and go-redis send testdata/clients/steps.txt to redis-server and to
// every door in front of every back end. To Redis' own commands they get the same replies everywhere,
// except for what docs/compatibility.md lists; to Redoubt's commands, all of them, they get the expected replies.
func TestClients(t *testing.T) {
	steps := readSteps(t)
	doors := openDoors(t)
	known := readKnown(t)
	for _, c := range []struct {
		name      string
		protocols []int
		run       func(t *testing.T, task task) answer
	}{
		{"go-redis", []int{2, 3}, runGoRedis},
		{"redis-py", []int{2}, func(t *testing.T, task task) answer {
			return run(t, task, programs.Python(t, "redis"), "runner.py") // Debian's redis-py is older than RESP3
		}},
		{"ioredis", []int{2, 3}, func(t *testing.T, task task) answer { return run(t, task, nodeWith(t, "ioredis"), "runner.js") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := task{Steps: steps}
			for _, p := range c.protocols {
				for _, d := range doors {
					d.Protocol = p
					task.Doors = append(task.Doors, d)
				}
			}
			got := c.run(t, task)
			t.Logf("%s %s: %d steps through %d doors", c.name, got.Version, len(steps), len(task.Doors))
			for i := range task.Doors {
				compare(t, task.Doors[i], steps, got.Replies[i], got.Replies[i-i%len(doors)], known)
			}
		})
	}
	for _, k := range known {
		if !k.seen {
			t.Errorf("docs/compatibility.md says that %s differs behind %s; it does not", k.command, k.door)
		}
	}
}

// A task is what a client is given.
type task struct {
	Doors []door  `json:"doors"`
	Steps []*step `json:"steps"`
}

// A door is a port to send all steps to.
type door struct {
	name     string
	Port     int  `json:"port"`
	Protocol int  `json:"protocol"`
	Direct   bool `json:"direct"` // redis-server itself
}

// An answer has the replies to all steps by door. Arrays, integers, strings and nulls are as in
// JSON; {"map": [[key, value], …]}, {"set": […]}, {"error": text} and the like are the rest.
type answer struct {
	Version string  `json:"version"`
	Replies [][]any `json:"replies"`
}

// A step is a line of steps.txt. Words before a colon say what is done and how replies are compared:
//
//	sorted      an array's order is left to the server
//	shape       only the types count
//	pipeline    the commands, by the client's pipeline
//	multi       the commands, by the client's transaction
//	watch       watches a key, sends a command by another connection, then sends a transaction
//	blocked     sends a command that waits, and one by another connection
//	scan        all keys that match a pattern, by the client's iterator
//	pages       what all pages of a list have that is read with CURSOR
//	script      the code, the keys and the arguments, by the client's API for scripts
//	subscribe, psubscribe, ssubscribe   listens to a channel, publishes, receives
//	tracking    reads a key with CLIENT TRACKING, writes it, receives the invalidation
//
// The text behind an arrow is the wanted reply: such a step is about a command of Redoubt's own
// and is not sent to redis-server. "<integer>", "<double>", "<string>" and "<any>" stand for what varies,
// "<yes>" and "<no>" for 1 and 0, which RESP3 has as booleans, "..." for more fields of a map, and
// "$name" for a string or integer that later commands have as a word.
type step struct {
	Do       string           `json:"do"`
	Commands [][]string       `json:"commands"`
	Ours     bool             `json:"ours"`
	Save     map[string][]int `json:"save,omitempty"`

	text          string
	sorted, shape bool
	want          any
}

const clientsDir = "testdata/clients"

func readSteps(t *testing.T) (steps []*step) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(clientsDir, "steps.txt"))
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]bool)
	for _, c := range command.All() {
		missing[c.Name] = true
	}
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseStep(line)
		if err != nil {
			t.Fatalf("steps.txt:%d: %v", i+1, err)
		}
		steps = append(steps, s)
		for _, c := range s.Commands {
			if s.Ours {
				delete(missing, c[0])
			}
		}
	}
	for name := range missing {
		t.Errorf("steps.txt has no step for %s", name)
	}
	return steps
}

// directives are the words before a colon that say what is done.
var directives = []string{"pipeline", "multi", "watch", "blocked", "scan", "pages", "script", "subscribe", "psubscribe", "ssubscribe", "tracking"}

func parseStep(line string) (*step, error) {
	s := &step{Do: "call", text: line}
	line, want, ours := strings.Cut(line, " -> ")
	if s.Ours = ours; ours {
		if err := json.Unmarshal([]byte(want), &s.want); err != nil {
			return nil, fmt.Errorf("the wanted reply: %w", err)
		}
		s.Save = make(map[string][]int)
		saved(s.want, nil, s.Save)
	}
	if head, rest, ok := strings.Cut(line, ": "); ok && !strings.ContainsAny(head, " \"") {
		switch line = rest; {
		case head == "sorted":
			s.sorted = true
		case head == "shape":
			s.shape = true
		case slices.Contains(directives, head):
			s.Do = head
		default:
			return nil, fmt.Errorf("no directive %q", head)
		}
	}
	for part := range strings.SplitSeq(line, " ; ") {
		words, err := split(part)
		if err != nil {
			return nil, err
		}
		s.Commands = append(s.Commands, words)
	}
	return s, nil
}

// split splits a command at blanks; words in double quotes are strings of JSON.
func split(line string) (words []string, err error) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		d := json.NewDecoder(strings.NewReader(line))
		var word string
		if err := d.Decode(&word); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		words, line = append(words, word), line[d.InputOffset():]
	}
	return words, nil
}

// saved finds where replies have what later commands need.
func saved(want any, path []int, save map[string][]int) {
	switch want := want.(type) {
	case string:
		if strings.HasPrefix(want, "$") {
			save[want] = slices.Clone(path)
		}
	case []any:
		for i, v := range want {
			saved(v, append(path, i), save)
		}
	}
}

// openDoors starts a redis-server to compare with, which is the first, and what Redoubt stands in front of.
func openDoors(t *testing.T) []door {
	t.Helper()
	var doors []door
	add := func(name, addr string) {
		_, text, _ := net.SplitHostPort(addr)
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		doors = append(doors, door{name: name, Port: port, Direct: len(doors) == 0})
	}
	add("redis-server", redistest.Start(t).Addr())
	add("engine", serveEngine(t))
	add("redis", serve(t))
	add("pool", servePool(t))
	_, addr := servertest.ServePool(t, proxy.PoolOptions{Name: "cluster", Cluster: &proxy.Cluster{
		Seeds:   redistest.StartCluster(t, 3, 0).Addrs(),
		Backend: func(addr string) proxy.Backend { return &proxy.Redis{Addr: addr} },
	}})
	add("cluster pool", addr)
	return doors
}

// serveEngine runs a server on an engine in this process.
func serveEngine(t *testing.T) (addr string) {
	t.Helper()
	e, err := engine.New(engine.Options{Natives: native.All()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	srv, err := server.New(server.Options{
		Backend: e, Client: clienttest.New(t, e, ""), Sessions: func(c net.Conn) server.Session { return e.SessionFor(c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Serve(t, srv)
}

// run has a script of testdata/clients send the steps.
func run(t *testing.T, task task, program, script string) (a answer) {
	t.Helper()
	in, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), program, script) //nolint:gosec // ours
	cmd.Dir = clientsDir
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, complaints.String())
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v: %s", script, err, complaints.String())
	}
	return a
}

// nodeWith finds Node, which must have a package of testdata/clients.
func nodeWith(t *testing.T, name string) string {
	t.Helper()
	program, err := osexec.LookPath("node")
	if _, missing := os.Stat(filepath.Join(clientsDir, "node_modules", name)); err != nil || missing != nil {
		t.Fatalf("these tests need Node and %s: apt-get install nodejs npm, then make needed", name)
	}
	return program
}

// compare checks the replies of a door against the replies of redis-server and the wanted replies.
func compare(t *testing.T, d door, steps []*step, got, direct []any, known []*difference) {
	t.Helper()
	where := fmt.Sprintf("%s, RESP%d", d.name, d.Protocol)
	for i, s := range steps {
		if s.Ours {
			if !d.Direct && !matches(s.want, got[i], d.Protocol) {
				t.Errorf("%s: %s\n\tgot  %s", where, s.text, text(got[i]))
			}
			continue
		}
		g, want := s.view(got[i]), s.view(direct[i])
		if reflect.DeepEqual(g, want) {
			continue
		}
		listed := false
		for _, k := range known {
			if k.door == d.name && s.has(k.command) {
				k.seen, listed = true, true
			}
		}
		if !listed {
			t.Errorf("%s: %s\n\tgot  %s\n\twant %s", where, s.text, text(g), text(want))
		}
	}
}

// view is what is compared of a reply.
func (s *step) view(reply any) any {
	reply = ordered(reply)
	if list, ok := reply.([]any); ok && s.sorted {
		slices.SortFunc(list, byText)
	}
	if s.shape {
		return shape(reply)
	}
	return reply
}

// ordered sorts maps and sets, whose order says nothing.
func ordered(reply any) any {
	switch v := reply.(type) {
	case []any:
		for i := range v {
			v[i] = ordered(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = ordered(v[k])
			if list, ok := v[k].([]any); ok {
				slices.SortFunc(list, byText)
			}
		}
	}
	return reply
}

func byText(a, b any) int { return cmp.Compare(text(a), text(b)) }

func shape(reply any) any {
	switch v := reply.(type) {
	case []any:
		shapes := make([]any, len(v))
		for i := range v {
			shapes[i] = shape(v[i])
		}
		return shapes
	case map[string]any:
		return slices.Sorted(func(yield func(string) bool) {
			for k := range v {
				if !yield(k) {
					return
				}
			}
		})
	}
	return fmt.Sprintf("%T", reply)
}

// matches compares a reply with the wanted one. In RESP2 a map is a flat array.
func matches(want, got any, protocol int) bool {
	switch want := want.(type) {
	case string:
		number, isNumber := got.(float64)
		s, isString := got.(string)
		switch {
		case want == "<any>":
			return got != nil
		case want == "<yes>", want == "<no>":
			yes := want == "<yes>"
			return protocol == 2 && isNumber && (number == 1) == yes || protocol == 3 && got == any(yes)
		case want == "<double>":
			return protocol == 2 && isString || protocol == 3 && isNumber
		case want == "<integer>":
			return isNumber && number == float64(int64(number))
		case want == "<string>":
			return isString
		case strings.HasPrefix(want, "$"):
			return isNumber || isString && s != ""
		}
		return isString && s == want
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, func(w, g any) bool { return matches(w, g, protocol) })
	case map[string]any:
		fields, isMap := want["map"].(map[string]any)
		if !isMap {
			m, ok := got.(map[string]any)
			return ok && len(m) == 1 && matches(want["error"], m["error"], protocol)
		}
		return matchesFields(fields, got, protocol)
	}
	return reflect.DeepEqual(want, got)
}

func matchesFields(want map[string]any, got any, protocol int) bool {
	var pairs []any
	if m, ok := got.(map[string]any); ok && protocol == 3 {
		pairs, _ = m["map"].([]any)
	} else if flat, ok := got.([]any); ok && protocol == 2 && len(flat)%2 == 0 {
		for pair := range slices.Chunk(flat, 2) {
			pairs = append(pairs, pair)
		}
	}
	fields := make(map[string]any)
	for _, p := range pairs {
		pair, _ := p.([]any)
		if key, ok := pair[0].(string); ok {
			fields[key] = pair[1]
		}
	}
	_, more := want["..."]
	if !more && len(fields) != len(want) {
		return false
	}
	for key, w := range want {
		if v, ok := fields[key]; key != "..." && (!ok || !matches(w, v, protocol)) {
			return false
		}
	}
	return true
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
