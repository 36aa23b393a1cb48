package lua

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A Library is code that was run once and stays loaded with the functions that it registered. Their
// variables outside of the functions live as long as the library. The methods are for one goroutine at a time.
type Library struct {
	Functions []*Function // in the order of registration

	rt     *Runtime
	st     *state
	broken error // an internal error: it can't be called again
}

// A Function is one that a [Library] registered.
type Function struct {
	Name        string
	Description string
	Described   bool     // it has a description, which may be empty
	Flags       []string // in the order in which Redis lists them

	fn value
}

// flagNames are the flags that a function can have.
var flagNames = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// IsLibraryName reports whether a library or a function may have a name.
func IsLibraryName(name string) bool {
	for i := range len(name) {
		switch c := name[i] | ' '; {
		case c >= 'a' && c <= 'z', name[i] >= '0' && name[i] <= '9', name[i] == '_':
		default:
			return false
		}
	}
	return name != ""
}

// LibraryNameRule is the text of Redis' error for a name that [IsLibraryName] refuses.
const LibraryNameRule = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

// Load runs the code of a library, without its first line, so that it registers its functions. It uses the
// Deadline and the Interrupt of inv alone. The text of the error is that of Redis' error reply, without its code.
func (rt *Runtime) Load(code string, inv Invocation) (lib *Library, err error) {
	main, _, serr := compile(nil, code, "@user_function", 0)
	if serr != nil {
		return nil, errors.New("Error compiling function: " + oneLine(serr.msg))
	}
	lib = &Library{rt: rt, st: newState(rt.opts, true)}
	st := lib.st
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrInternal, r, debug.Stack())
		}
		if err != nil {
			st.release()
			lib = nil
		}
	}()
	all := st.globals
	st.globals = st.loadGlobals()
	st.library = lib
	st.limit(rt)
	st.attend(&Invocation{Deadline: inv.Deadline, Interrupt: inv.Interrupt}, rt)
	err = st.load(main)
	st.globals, st.library = all, nil
	st.settleRun()
	if err == nil && len(lib.Functions) == 0 {
		err = errors.New("No functions registered") //nolint:staticcheck // Redis' text
	}
	return lib, err
}

// load runs the code of a library.
func (st *state) load(main *proto) (err error) {
	const failed = "Error registering functions: "
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		switch e, ok := r.(*luaError); {
		case !ok || !e.fatal:
			panic(r)
		case errors.Is(e.cause, ErrDeadline):
			err = errors.New(failed + "ERR FUNCTION LOAD timeout")
		default:
			err = errors.New(failed + strings.TrimPrefix(e.cause.Error(), "lua: "))
		}
	}()
	l := st.main
	fn := l.top
	l.push(value{o: &luaFn{p: main, id: st.newID()}})
	if bad, e := l.protect(fn, 0, nil); bad {
		text, ok := toText(&e)
		if t, is := e.o.(*table); is {
			v := t.field(strErr)
			text, ok = toText(&v)
		} else if ok {
			text = "ERR " + text
		}
		if !ok {
			text = "ERR unknown error"
		}
		return errors.New(failed + oneLine(cString(text)))
	}
	return nil
}

// loadGlobals are the globals of a library while it is loaded.
func (st *state) loadGlobals() *table {
	all, _ := st.globals.field(constant("redis")).o.(*table)
	redis := st.newTable(0, 16)
	for _, name := range []string{"log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"} {
		redis.setField(st, name, all.field(constant(name)))
	}
	st.register(redis, map[string]native{"register_function": registerFunction})
	redis.meta = st.globals.meta
	g := st.newTable(0, 1)
	g.setField(st, "redis", value{o: redis})
	g.meta = st.globals.meta
	st.protect(g)
	return g
}

// Call runs a function of the library and writes exactly one reply to w, as [Runtime.Run] does for a script.
func (lib *Library) Call(f *Function, inv Invocation, w Writer) (err error) {
	if lib.broken != nil {
		w.Error("ERR the library met an internal error: load it again")
		return lib.broken
	}
	st := lib.st
	defer func() {
		if r := recover(); r != nil {
			lib.broken = fmt.Errorf("%w: %v\n%s", ErrInternal, r, debug.Stack())
			if err = lib.broken; !st.answering {
				w.Error("ERR Error running script " + f.Name + ", internal error")
			}
			return
		}
		st.settleRun()
	}()
	st.attend(&inv, lib.rt)
	v, err := st.runFunction(f, &inv)
	if err != nil {
		return st.stopped(w, err)
	}
	return st.answer(w, v)
}

func (st *state) runFunction(f *Function, inv *Invocation) (v value, err error) {
	defer st.recovered(f.Name, &err)
	l := st.main
	fn := l.top
	l.push(f.fn)
	l.push(st.list(inv.Keys))
	l.push(st.list(inv.Args))
	return st.finishRun(fn, f.Name)
}

// list makes an array of copies, which a function may keep.
func (st *state) list(items []string) value {
	t := st.newTable(len(items), 0)
	v := value{o: t}
	st.main.push(v) // so that it counts while it grows
	for i, s := range items {
		st.charge(strSize + len(s))
		st.workBytes(len(s))
		*t.slotInt(st, i+1) = value{o: &str{s: strings.Clone(s)}}
	}
	st.main.top--
	return v
}

// Close gives back the memory that the library has reserved.
func (lib *Library) Close() { lib.st.release() }

// settleRun ends a run of a state that lasts. Nothing ends what it does itself.
func (st *state) settleRun() {
	st.forget()
	st.deadline, st.budget = time.Time{}, 0
	st.recount()
}

// The limits of a library. Redis has none.
const (
	mostFunctions   = 1000
	mostName        = 512      // bytes
	mostDescription = 64 << 10 // bytes
)

// kept copies a text that the library keeps.
func (l *thread) kept(s string) string {
	l.st.charge(strSize + len(s))
	l.st.workBytes(len(s))
	l.st.texts += strSize + len(s)
	return strings.Clone(s)
}

func registerFunction(l *thread) int {
	lib := l.st.library
	if lib == nil {
		l.raise("redis.register_function can only be called on FUNCTION LOAD command")
	}
	f := &Function{}
	var problem string
	l.st.work(1 + len(lib.Functions))
	switch l.nargs() {
	case 1:
		problem = l.namedFunction(f)
	case 2:
		problem = l.positionalFunction(f)
	default:
		problem = "wrong number of arguments to redis.register_function"
	}
	switch {
	case problem != "":
	case len(lib.Functions) == mostFunctions:
		problem = "a library has at most 1000 functions"
	case !IsLibraryName(f.Name):
		problem = LibraryNameRule
	default:
		for _, other := range lib.Functions {
			if other.Name == f.Name {
				problem = "Function already exists in the library"
			}
		}
	}
	if problem != "" {
		l.raise(problem)
	}
	l.st.charge(fnSize)
	lib.Functions = append(lib.Functions, f)
	l.st.roots = append(l.st.roots, f.fn)
	return 0
}

func (l *thread) positionalFunction(f *Function) (problem string) {
	name := l.arg(1)
	text, ok := toText(&name)
	if !ok {
		return "first argument to redis.register_function must be a string"
	}
	if f.fn = l.arg(2); !isFn(f.fn) {
		return "second argument to redis.register_function must be a function"
	}
	if len(text) > mostName {
		return "a function's name has at most 512 bytes"
	}
	f.Name = l.kept(text)
	return ""
}

func (l *thread) namedFunction(f *Function) (problem string) {
	arg := l.arg(1)
	t, ok := arg.o.(*table)
	if !ok {
		return "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
	}
	named := false
	key := vNil
	for {
		k, v, more, _ := t.next(l.st, &key)
		if !more {
			break
		}
		key = k
		name, ok := toText(&k)
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		text, isText := toText(&v)
		switch strings.ToLower(name) {
		case "function_name":
			if !isText {
				return "function_name argument given to redis.register_function must be a string"
			}
			if len(text) > mostName {
				return "a function's name has at most 512 bytes"
			}
			f.Name, named = l.kept(text), true
		case "description":
			if !isText {
				return "description argument given to redis.register_function must be a string"
			}
			if len(text) > mostDescription {
				return "a function's description has at most 65536 bytes"
			}
			f.Description, f.Described = l.kept(text), true
		case "callback":
			if !isFn(v) {
				return "callback argument given to redis.register_function must be a function"
			}
			f.fn = v
		case "flags":
			flags, ok := v.o.(*table)
			if !ok {
				return "flags argument to redis.register_function must be a table representing function flags"
			}
			if f.Flags, ok = l.functionFlags(flags); !ok {
				return "unknown flag given"
			}
		default:
			return "unknown argument given to redis.register_function"
		}
	}
	switch {
	case !named:
		return "redis.register_function must get a function name argument"
	case f.fn.o == nil:
		return "redis.register_function must get a callback argument"
	}
	return ""
}

func (l *thread) functionFlags(t *table) (flags []string, ok bool) {
	given := map[string]bool{}
	for i := 1; ; i++ {
		v := l.index(value{o: t}, num(float64(i)), -1)
		if v.o == nil {
			break
		}
		text, ok := toText(&v)
		if !ok {
			return nil, false
		}
		given[strings.ToLower(text)] = true
		l.st.work(1)
	}
	for _, f := range flagNames {
		if given[f] {
			flags = append(flags, f)
			delete(given, f)
		}
	}
	return flags, len(given) == 0
}
