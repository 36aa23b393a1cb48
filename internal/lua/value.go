package lua

import "strconv"

// A value is one Lua value. The dynamic type of o is its kind, and n is its
// number when the kind is number. The zero value is nil.
//
// It is 24 bytes without unsafe. The 16-byte forms need pointers of unknown
// type, where a mistake of ours would corrupt the host's memory instead of
// failing one script.
type value struct {
	n float64
	o any
}

// The kinds without a pointer behind them.
type (
	number struct{}
	truth  struct{}
	lie    struct{}
)

// A userdata is an opaque value; scripts see one, cjson.null.
type userdata struct{ name string }

// A str is a Lua string. A shared one is a constant of a Proto or of a
// library: it may be read by many states at once and is never marked.
type str struct {
	s      string
	h      uint32
	hashed bool
	shared bool
	mark   uint32
}

// A luaFn is a closure over a compiled function.
type luaFn struct {
	p    *proto
	ups  []*upval
	id   uint32
	mark uint32
}

// A native is a function written in Go. Its arguments are the stack from
// l.base to l.top; it pushes its results and returns their number.
type native func(l *thread) int

// A goFn is a native as a Lua value.
type goFn struct {
	name string
	fn   native
	ups  []value
	id   uint32
	mark uint32
}

// An upval is a variable of an enclosing function: a slot of a stack while
// that function runs, and its own storage after.
type upval struct {
	v      *value
	closed value
	idx    int
	next   *upval
	owner  *thread // whose stack has the slot
	mark   uint32
}

var (
	vNil   value
	vTrue  = value{o: truth{}}
	vFalse = value{o: lie{}}
)

func num(n float64) value    { return value{n: n, o: number{}} }
func (v *value) isNum() bool { _, ok := v.o.(number); return ok }
func (v *value) isStr() bool { _, ok := v.o.(*str); return ok }
func (v *value) falsy() bool { _, no := v.o.(lie); return no || v.o == nil }
func newStr(s string) value  { return value{o: &str{s: s}} }
func boolean(b bool) value {
	if b {
		return vTrue
	}
	return vFalse
}

// sharedStr makes a string that several states may hold.
func sharedStr(s string) *str {
	x := &str{s: s, h: hashString(s), hashed: true, shared: true}
	return x
}

func (x *str) hash() uint32 {
	if !x.hashed {
		x.h, x.hashed = hashString(x.s), true
	}
	return x.h
}

// hashString is the string hash of Redis' Lua, on which the order of pairs
// depends. Unlike Lua's own it leaves no byte out.
func hashString(s string) uint32 {
	h := uint32(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		h ^= (h << 5) + (h >> 2) + uint32(s[i])
	}
	return h
}

// kindName is what type() answers.
func kindName(v value) string {
	switch v.o.(type) {
	case nil:
		return "nil"
	case number:
		return "number"
	case truth, lie:
		return "boolean"
	case *str:
		return "string"
	case *table:
		return "table"
	case *luaFn, *goFn:
		return "function"
	case *thread:
		return "thread"
	}
	return "userdata"
}

// rawEqual compares without metamethods.
func rawEqual(a, b *value) bool {
	switch x := a.o.(type) {
	case nil:
		return b.o == nil
	case number:
		return b.isNum() && a.n == b.n
	case truth:
		_, ok := b.o.(truth)
		return ok
	case lie:
		_, ok := b.o.(lie)
		return ok
	case *str:
		y, ok := b.o.(*str)
		return ok && (x == y || x.s == y.s)
	case *table:
		y, ok := b.o.(*table)
		return ok && x == y
	case *luaFn:
		y, ok := b.o.(*luaFn)
		return ok && x == y
	case *goFn:
		y, ok := b.o.(*goFn)
		return ok && x == y
	case *thread:
		y, ok := b.o.(*thread)
		return ok && x == y
	case *userdata:
		y, ok := b.o.(*userdata)
		return ok && x == y
	}
	return false
}

// toText converts as concatenation does: strings and numbers.
func toText(v *value) (string, bool) {
	switch x := v.o.(type) {
	case *str:
		return x.s, true
	case number:
		return formatNumber(v.n), true
	}
	return "", false
}

// address stands for the %p of C Lua; it names an object within its state.
func address(kind string, id uint32) string {
	h := strconv.FormatUint(0x7f0000000000+uint64(id)*32, 16)
	return kind + ": 0x" + h
}
