package lua

import (
	"math"
	"strings"
)

// A Writer takes one reply: a scalar, or an aggregate's header and then its
// elements, each a reply. It knows the client's protocol and folds what RESP2
// does not have. A [Reply] is a Writer too, so that a host's commands can
// write to a client and to a script alike. Bytes passed to it are not kept.
type Writer interface {
	Null()
	NullArray()
	Int(n int64)
	Bulk(b []byte)
	BulkString(s string)
	// Status and Error are one line; the error begins with its code.
	Status(s string)
	Error(s string)
	Double(f float64)
	Bool(b bool)
	BigNumber(digits string)
	Verbatim(format, text string)
	// Array and Set announce n elements, Map n pairs of them.
	Array(n int)
	Set(n int)
	Map(n int)
}

// A Host runs the commands of a script.
type Host interface {
	// Call runs one command, args[0] being its name, and writes its reply,
	// exactly one, to r. The bytes of args are only valid until it returns.
	// A refusal is an error reply, such as "ERR Unknown Redis command called
	// from script".
	Call(args [][]byte, r *Reply)
}

// A Logger is a Host that keeps the messages of redis.log. Levels go from
// redis.LOG_DEBUG (0) to redis.LOG_WARNING (3).
type Logger interface {
	Log(level int, message string)
}

// An ACL is a Host that answers redis.acl_check_cmd. known is false for what
// is no command. Without it every command is allowed.
type ACL interface {
	Allowed(args [][]byte) (allowed, known bool)
}

// A Reply receives a command's reply and makes a Lua value of it as it comes,
// without a tree in between.
type Reply struct {
	l       *thread
	resp3   bool
	isError bool
	done    bool
	v       value
	open    []aggregate
}

// Look tells that the command took long: whether the run may go on is looked at
// now, and not when it has taken so many steps. It may end the run, and with it
// the Host's Call.
func (r *Reply) Look() { r.l.st.refuel() }

// Hold counts n bytes that the Host keeps until its Call returns. It may end the Call by a
// panic, as any other method may.
func (r *Reply) Hold(n int) { r.l.st.hold(n) }

// An aggregate is a reply whose elements are still coming.
type aggregate struct {
	t    *table
	kind *str // strMap, strSet or nil for an array
	left int
	at   int
	key  value
	half bool
}

// RESP3 reports whether the script asked for RESP3 replies. A Reply folds
// what RESP2 does not have by itself.
func (r *Reply) RESP3() bool { return r.resp3 }

func (r *Reply) start(l *thread, resp3 bool) {
	r.l, r.resp3, r.isError, r.done, r.v, r.open = l, resp3, false, false, vNil, r.open[:0]
}

// add puts a finished value in its place, and closes what it completes.
func (r *Reply) add(v value) {
	st := r.l.st
	st.work(1)
	for len(r.open) > 0 {
		a := &r.open[len(r.open)-1]
		switch {
		case a.kind == nil:
			a.at++
			*a.t.slotInt(st, a.at) = v
			a.left--
		case a.kind == strMap && !a.half:
			a.key, a.half = v, true
		default:
			if a.kind == strSet {
				a.key, v = v, vTrue
			}
			if a.key.o != nil && (!a.key.isNum() || a.key.n == a.key.n) {
				*a.t.slot(st, a.key) = v
			}
			a.half = false
			a.left--
		}
		if a.left > 0 {
			return
		}
		v = a.finish(st)
		r.open = r.open[:len(r.open)-1]
	}
	if !r.done {
		r.v, r.done = v, true
	}
}

func (a *aggregate) finish(st *state) value {
	if a.kind == nil {
		return value{o: a.t}
	}
	return single(st, a.kind, value{o: a.t})
}

// single is a table with one field.
func single(st *state, k *str, v value) value {
	t := st.newTable(0, 1)
	*t.slot(st, value{o: k}) = v
	return value{o: t}
}

func (r *Reply) begin(kind *str, n int) {
	a := aggregate{kind: kind, left: n}
	st := r.l.st
	size := 0
	if kind == nil && n > 0 {
		size = 1 << ceilLog2(n)
	}
	a.t = st.newTable(size, 0)
	if n <= 0 {
		r.add(a.finish(st))
		return
	}
	r.open = append(r.open, a)
}

// Null is nil in RESP3 and false in RESP2.
func (r *Reply) Null() {
	if r.resp3 {
		r.add(vNil)
	} else {
		r.add(vFalse)
	}
}

// NullArray is the same to a script.
func (r *Reply) NullArray() { r.Null() }

// Int is a number.
func (r *Reply) Int(n int64) { r.add(num(float64(n))) }

// Bulk is a string; b is copied.
func (r *Reply) Bulk(b []byte) { r.add(r.l.st.bytes(b)) }

// BulkString is a string, kept without a copy.
func (r *Reply) BulkString(s string) { r.add(r.l.st.str(s)) }

// Status is a table with the field ok.
func (r *Reply) Status(s string) {
	if s == "OK" {
		r.add(single(r.l.st, strOK, value{o: strStatusOK}))
		return
	}
	r.add(single(r.l.st, strOK, r.l.st.str(s)))
}

// Error is a table with the field err; redis.call raises it.
func (r *Reply) Error(s string) {
	st := r.l.st
	if len(r.open) == 0 {
		r.isError = true
	}
	t := st.errorTable("-" + s)
	*t.slot(st, value{o: strIgnore}) = vTrue
	r.add(value{o: t})
}

// Double is a table with the field double in RESP3, else a string.
func (r *Reply) Double(f float64) {
	if r.resp3 {
		r.add(single(r.l.st, strDouble, num(f)))
		return
	}
	var buf [32]byte
	if math.IsInf(f, 0) || math.IsNaN(f) {
		r.Bulk(appendG(buf[:0], f, 17))
		return
	}
	r.Bulk(appendArg(buf[:0], f))
}

// Bool is a boolean in RESP3, else 1 or 0.
func (r *Reply) Bool(b bool) {
	switch {
	case r.resp3:
		r.add(boolean(b))
	case b:
		r.Int(1)
	default:
		r.Int(0)
	}
}

// BigNumber is a table with the field big_number in RESP3, else a string.
func (r *Reply) BigNumber(digits string) {
	if r.resp3 {
		r.add(single(r.l.st, strBig, r.l.st.str(digits)))
	} else {
		r.BulkString(digits)
	}
}

// Verbatim is a table with the field verbatim_string in RESP3, else a string.
func (r *Reply) Verbatim(format, text string) {
	if !r.resp3 {
		r.BulkString(text)
		return
	}
	st := r.l.st
	t := st.newTable(0, 2)
	*t.slot(st, value{o: strString}) = st.str(text)
	*t.slot(st, value{o: strFormat}) = st.str(format)
	r.add(single(st, strVerbatim, value{o: t}))
}

// Array begins a table of n values.
func (r *Reply) Array(n int) { r.begin(nil, n) }

// Set begins a table with the field set in RESP3, else an array.
func (r *Reply) Set(n int) {
	if r.resp3 {
		r.begin(strSet, n)
	} else {
		r.begin(nil, n)
	}
}

// Map begins a table with the field map in RESP3, else a flat array.
func (r *Reply) Map(n int) {
	if r.resp3 {
		r.begin(strMap, n)
	} else {
		r.begin(nil, 2*n)
	}
}

var (
	strErr      = libName("err")
	strOK       = libName("ok")
	strStatusOK = libName("OK")
	strDouble   = libName("double")
	strBig      = libName("big_number")
	strVerbatim = libName("verbatim_string")
	strString   = libName("string")
	strFormat   = libName("format")
	strMap      = libName("map")
	strSet      = libName("set")
	strSource   = libName("source")
	strLine     = libName("line")
	strKEYS     = libName("KEYS")
	strARGV     = libName("ARGV")
	strIgnore   = libName("ignore_error_stats_update")
)

// errorTable is an error as scripts see it. Text that begins with '-' carries
// its code; to other text ERR is added.
func (st *state) errorTable(text string) *table {
	st.workSlow(len(text))
	st.charge(2 * len(text)) // copies that are made below
	text = cString(text)
	code := "ERR"
	if strings.HasPrefix(text, "-") {
		if i := strings.IndexByte(text, ' '); i >= 0 {
			code, text = text[1:i], text[i+1:]
		} else {
			text = text[1:]
		}
	}
	t := st.newTable(0, 0)
	*t.slot(st, value{o: strErr}) = st.str(code + " " + strings.Trim(text, "\r\n"))
	return t
}

// oneLine is text fit for a status or an error.
func oneLine(s string) string {
	if strings.ContainsAny(s, "\r\n") {
		return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	return s
}

// writeReply writes what a script returned. depth stands for the stack that
// C Lua needs for a value nested so deep.
func (l *thread) writeReply(w Writer, v value, depth int) {
	if depth+4 > maxCStack {
		w.Error("ERR reached lua stack limit")
		return
	}
	switch x := v.o.(type) {
	case *str:
		w.BulkString(x.s)
	case number:
		w.Int(toInt64(v.n))
	case truth:
		if l.st.resp3 {
			w.Bool(true)
		} else {
			w.Int(1)
		}
	case lie:
		if l.st.resp3 {
			w.Bool(false)
		} else {
			w.Null()
		}
	case *table:
		l.writeTable(w, x, depth)
	default:
		w.Null()
	}
}

func (l *thread) writeTable(w Writer, t *table, depth int) {
	if len(t.nodes) > 0 && l.writeSpecial(w, t, depth) {
		return
	}
	n := 0
	for p := t.getInt(1); p != nil && p.o != nil; p = t.getInt(n + 1) {
		n++
	}
	w.Array(n)
	for i := range n {
		l.writeReply(w, *t.getInt(i + 1), depth+1)
	}
}

// writeSpecial writes a table that stands for something else than an array.
func (l *thread) writeSpecial(w Writer, t *table, depth int) bool {
	if e := t.field(strErr); e.isStr() {
		text, _ := toText(&e)
		w.Error(oneLine(strings.Trim(cString(text), "\r\n")))
		return true
	}
	if s := t.field(strOK); s.isStr() {
		text, _ := toText(&s)
		w.Status(oneLine(cString(text)))
		return true
	}
	if d := t.field(strDouble); d.isNum() {
		w.Double(d.n)
		return true
	}
	if b := t.field(strBig); b.isStr() {
		text, _ := toText(&b)
		w.BigNumber(oneLine(text))
		return true
	}
	if vt, ok := t.field(strVerbatim).o.(*table); ok {
		format, text := vt.field(strFormat), vt.field(strString)
		if format.isStr() && text.isStr() {
			f, _ := toText(&format)
			s, _ := toText(&text)
			w.Verbatim(cString(f), s)
			return true
		}
	}
	if mt, ok := t.field(strMap).o.(*table); ok {
		w.Map(mt.count())
		mt.each(func(k, v value) {
			l.writeReply(w, k, depth+3)
			l.writeReply(w, v, depth+3)
		})
		return true
	}
	if set, ok := t.field(strSet).o.(*table); ok {
		w.Set(set.count())
		set.each(func(k, _ value) {
			l.writeReply(w, k, depth+3)
		})
		return true
	}
	return false
}

// slots is how many places there are to look at in a table.
func (t *table) slots() int { return len(t.arr) + 2*len(t.nodes) }

func (t *table) count() int {
	n := 0
	t.each(func(_, _ value) { n++ })
	return n
}

// each visits all pairs in the order of next.
func (t *table) each(f func(k, v value)) {
	for i := range t.arr {
		if t.arr[i].o != nil {
			f(num(float64(i+1)), t.arr[i])
		}
	}
	for i := range t.nodes {
		if t.nodes[i].val.o != nil {
			f(t.nodes[i].key, t.nodes[i].val)
		}
	}
}
