package lua

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// respWriter encodes replies, as a server would for a client.
type respWriter struct {
	b     []byte
	resp3 bool
}

func (w *respWriter) line(typ byte, s string) {
	w.b = append(append(append(w.b, typ), s...), '\r', '\n')
}

func (w *respWriter) Null() {
	if w.resp3 {
		w.line('_', "")
	} else {
		w.line('$', "-1")
	}
}
func (w *respWriter) NullArray()    { w.Null() }
func (w *respWriter) Int(n int64)   { w.line(':', strconv.FormatInt(n, 10)) }
func (w *respWriter) Bulk(b []byte) { w.BulkString(string(b)) }
func (w *respWriter) BulkString(s string) {
	w.line('$', strconv.Itoa(len(s)))
	w.b = append(append(w.b, s...), '\r', '\n')
}
func (w *respWriter) Status(s string) { w.line('+', s) }
func (w *respWriter) Error(s string)  { w.line('-', s) }
func (w *respWriter) Double(f float64) {
	s := string(appendG(nil, f, 17))
	switch {
	case math.IsNaN(f):
		s = "nan"
		if math.Signbit(f) {
			s = "-nan"
		}
	}
	if w.resp3 {
		w.line(',', s)
	} else {
		w.BulkString(s)
	}
}
func (w *respWriter) Bool(b bool) {
	switch {
	case w.resp3 && b:
		w.line('#', "t")
	case w.resp3:
		w.line('#', "f")
	case b:
		w.Int(1)
	default:
		w.Int(0)
	}
}
func (w *respWriter) BigNumber(s string) {
	if w.resp3 {
		w.line('(', s)
	} else {
		w.BulkString(s)
	}
}
func (w *respWriter) Verbatim(format, s string) {
	if !w.resp3 {
		w.BulkString(s)
		return
	}
	for len(format) < 3 {
		format += " "
	}
	w.line('=', strconv.Itoa(len(s)+4))
	w.b = append(append(w.b, format[:3]+":"+s...), '\r', '\n')
}
func (w *respWriter) Array(n int) { w.line('*', strconv.Itoa(n)) }
func (w *respWriter) Set(n int) {
	if w.resp3 {
		w.line('~', strconv.Itoa(n))
	} else {
		w.Array(n)
	}
}
func (w *respWriter) Map(n int) {
	if w.resp3 {
		w.line('%', strconv.Itoa(n))
	} else {
		w.Array(2 * n)
	}
}

// fakeHost is a small Redis: enough commands for scripts to be tested with.
type fakeHost struct {
	strings map[string]string
	hashes  map[string]map[string]string
	lists   map[string][]string
	sets    map[string]map[string]bool
	logs    []string
}

func newFakeHost() *fakeHost {
	return &fakeHost{
		strings: map[string]string{},
		hashes:  map[string]map[string]string{},
		lists:   map[string][]string{},
		sets:    map[string]map[string]bool{},
	}
}

func (h *fakeHost) Log(level int, msg string) {
	h.logs = append(h.logs, fmt.Sprintf("%d %s", level, msg))
}

func (h *fakeHost) Allowed(args [][]byte) (allowed, known bool) {
	_, known = arities[strings.ToLower(string(args[0]))]
	return true, known
}

var arities = map[string]int{
	"get": 2, "set": -3, "incr": 2, "incrby": 3, "incrbyfloat": 3, "del": -2,
	"exists": -2, "hset": -4, "hget": 3, "hgetall": 2, "rpush": -3,
	"lrange": 4, "sadd": -3, "smembers": 2, "echo": 2, "ping": -1,
	"mget": -2, "strlen": 2, "type": 2, "append": 3,
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

func (h *fakeHost) Call(args [][]byte, r *Reply) {
	name := strings.ToLower(string(args[0]))
	n, ok := arities[name]
	switch {
	case !ok:
		r.Error("ERR Unknown Redis command called from script")
		return
	case n > 0 && len(args) != n || n < 0 && len(args) < -n:
		r.Error("ERR Wrong number of args calling Redis command from script")
		return
	}
	a := make([]string, len(args))
	for i := range args {
		a[i] = string(args[i])
	}
	key := ""
	if len(a) > 1 {
		key = a[1]
	}
	switch name {
	case "ping":
		r.Status("PONG")
	case "echo":
		r.BulkString(a[1])
	case "get", "strlen", "append", "incr", "incrby", "incrbyfloat":
		if h.hashes[key] != nil || h.lists[key] != nil || h.sets[key] != nil {
			r.Error(wrongType)
			return
		}
		h.stringCommand(name, key, a, r)
	case "set":
		if len(a) > 3 { // a call gives all its results, and the generator knows none of SET's options
			r.Error("ERR syntax error")
			return
		}
		h.del(key)
		h.strings[key] = a[2]
		r.Status("OK")
	case "mget":
		r.Array(len(a) - 1)
		for _, k := range a[1:] {
			if s, ok := h.strings[k]; ok {
				r.BulkString(s)
			} else {
				r.Null()
			}
		}
	case "del", "exists":
		count := 0
		for _, k := range a[1:] {
			if h.typeOf(k) != "none" {
				count++
			}
			if name == "del" {
				h.del(k)
			}
		}
		r.Int(int64(count))
	case "type":
		r.Status(h.typeOf(key))
	case "hset":
		if h.hashes[key] == nil {
			h.hashes[key] = map[string]string{}
		}
		added := 0
		for i := 2; i+1 < len(a); i += 2 {
			if _, ok := h.hashes[key][a[i]]; !ok {
				added++
			}
			h.hashes[key][a[i]] = a[i+1]
		}
		r.Int(int64(added))
	case "hget":
		if v, ok := h.hashes[key][a[2]]; ok {
			r.BulkString(v)
		} else {
			r.Null()
		}
	case "hgetall":
		m := h.hashes[key]
		r.Map(len(m))
		for _, k := range sorted(m) {
			r.BulkString(k)
			r.BulkString(m[k])
		}
	case "rpush":
		h.lists[key] = append(h.lists[key], a[2:]...)
		r.Int(int64(len(h.lists[key])))
	case "lrange":
		for _, index := range a[2:] {
			if n, err := strconv.ParseInt(index, 10, 64); err != nil || strconv.FormatInt(n, 10) != index { // -0, say
				r.Error("ERR value is not an integer or out of range")
				return
			}
		}
		r.Array(len(h.lists[key]))
		for _, s := range h.lists[key] {
			r.BulkString(s)
		}
	case "sadd":
		if h.sets[key] == nil {
			h.sets[key] = map[string]bool{}
		}
		added := 0
		for _, m := range a[2:] {
			if !h.sets[key][m] {
				added++
			}
			h.sets[key][m] = true
		}
		r.Int(int64(added))
	case "smembers":
		r.Set(len(h.sets[key]))
		for _, m := range sorted(h.sets[key]) {
			r.BulkString(m)
		}
	}
}

func (h *fakeHost) stringCommand(name, key string, a []string, r *Reply) {
	s, ok := h.strings[key]
	switch name {
	case "get":
		if ok {
			r.BulkString(s)
		} else {
			r.Null()
		}
	case "strlen":
		r.Int(int64(len(s)))
	case "append":
		h.strings[key] = s + a[2]
		r.Int(int64(len(h.strings[key])))
	case "incr", "incrby":
		n, err := strconv.ParseInt(s, 10, 64)
		if ok && err != nil {
			r.Error("ERR value is not an integer or out of range")
			return
		}
		by := int64(1)
		if name == "incrby" {
			if by, err = strconv.ParseInt(a[2], 10, 64); err != nil {
				r.Error("ERR value is not an integer or out of range")
				return
			}
		}
		h.strings[key] = strconv.FormatInt(n+by, 10)
		r.Int(n + by)
	case "incrbyfloat":
		x, _ := strconv.ParseFloat(s, 64)
		by, _ := strconv.ParseFloat(a[2], 64)
		h.strings[key] = strconv.FormatFloat(x+by, 'f', -1, 64)
		r.BulkString(h.strings[key])
	}
}

func (h *fakeHost) del(k string) {
	delete(h.strings, k)
	delete(h.hashes, k)
	delete(h.lists, k)
	delete(h.sets, k)
}

func (h *fakeHost) typeOf(k string) string {
	switch {
	case h.hashes[k] != nil:
		return "hash"
	case h.lists[k] != nil:
		return "list"
	case h.sets[k] != nil:
		return "set"
	}
	if _, ok := h.strings[k]; ok {
		return "string"
	}
	return "none"
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// eval runs a script on a fresh fakeHost and returns the encoded reply.
func eval(t testing.TB, rt *Runtime, src string, resp3 bool, keys, args []string) string {
	t.Helper()
	defer randtest.Command(t, func() string { return src })()
	w := &respWriter{resp3: resp3}
	p, err := Compile("user_script", src)
	if err != nil {
		w.Error("ERR " + err.Error())
		return string(w.b)
	}
	rt.Run(p, Invocation{Host: newFakeHost(), Keys: keys, Args: args}, w) //nolint:errcheck // the reply says it
	return string(w.b)
}

func newTestRuntime(t testing.TB, o Options) *Runtime {
	t.Helper()
	rt, err := NewRuntime(o)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}
