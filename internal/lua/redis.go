package lua

import (
	"crypto/sha1" //nolint:gosec // redis.sha1hex is SHA-1; nothing is secured by it.
	"encoding/hex"
	"strconv"
	"strings"
)

// env is what one run of a script has besides Lua.
type env struct {
	host  Host
	resp3 bool
	// answering is set once a reply is being written to the client.
	answering bool
	// stoppedAt is the end of the reply for a run that was stopped.
	stoppedAt string
	rng       rng48
	reply     Reply
	argv      [][]byte
	argBuf    []byte
	json      jsonConfig
	errFn     *goFn
	// entry is the script as a function; keys and args are KEYS and ARGV.
	entry      luaFn
	keys, args params
	scratch    []byte // for results being put together
}

func (st *state) openRedis(version string, versionNum int) {
	t := st.newTable(0, 32)
	st.register(t, map[string]native{
		"call": redisCall, "pcall": redisPcall, "log": redisLog,
		"setresp": redisSetResp, "sha1hex": redisSHA1, "error_reply": redisErrorReply,
		"status_reply": redisStatusReply, "set_repl": redisSetRepl,
		"replicate_commands": redisReplicate, "breakpoint": redisBreakpoint,
		"debug": redisDebug, "acl_check_cmd": redisACL,
	})
	for name, n := range map[string]int{
		"LOG_DEBUG": 0, "LOG_VERBOSE": 1, "LOG_NOTICE": 2, "LOG_WARNING": 3,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3,
		"REDIS_VERSION_NUM": versionNum,
	} {
		t.setField(st, name, num(float64(n)))
	}
	t.setField(st, "REDIS_VERSION", value{o: constant(version)})
	st.globals.setField(st, "redis", value{o: t})
	st.errFn = &goFn{name: "__redis__err__handler", fn: errHandler, id: st.newID()}
	st.globals.setField(st, "__redis__err__handler", value{o: st.errFn})
}

// raise throws an error as Redis' own functions do.
func (l *thread) raise(text string) { l.throw(value{o: l.st.errorTable(text)}) }

// readArgs copies the arguments of the running native as a command's. The
// buffers are used again by the next call.
func (l *thread) readArgs() (problem string) {
	st := l.st
	n := l.nargs()
	if n == 0 {
		return "Please specify at least one argument for this redis lib call"
	}
	size := 0
	for i := l.ci.base; i < l.top; i++ {
		switch x := l.stack[i].o.(type) {
		case *str:
			size += len(x.s)
		case number:
			size += 32
		default:
			return "Lua redis lib command arguments must be strings or integers"
		}
	}
	st.workBytes(size)
	if cap(st.argBuf) < size {
		size += size/2 + 64
		st.charge(size)
		st.argBuf = make([]byte, 0, size)
	}
	buf, argv := st.argBuf[:0], st.argv[:0]
	for i := l.ci.base; i < l.top; i++ {
		from := len(buf)
		if s, ok := l.stack[i].o.(*str); ok {
			buf = append(buf, s.s...)
		} else {
			buf = appendArg(buf, l.stack[i].n)
		}
		argv = append(argv, buf[from:len(buf):len(buf)])
	}
	st.argv = argv
	return ""
}

// command runs the command that the arguments make and pushes its reply. It
// reports whether that is an error.
func (l *thread) command() (failed bool) {
	st := l.st
	if problem := l.readArgs(); problem != "" {
		l.pushTable(st.errorTable(problem))
		return true
	}
	st.work(10)
	held := st.held
	r := &st.reply
	r.start(l, st.resp3)
	if st.host == nil {
		r.Error("ERR redis.call/pcall can only be called inside a script invocation")
	} else {
		st.host.Call(st.argv, r)
	}
	if !r.done {
		r.Null()
	}
	if cap(st.argBuf) > mostScratch {
		st.argBuf = nil
	}
	st.held = held
	l.push(r.v)
	r.v = vNil
	return r.isError
}

func redisCall(l *thread) int {
	if l.command() {
		l.throw(l.stack[l.top-1])
	}
	return 1
}

func redisPcall(l *thread) int {
	l.command()
	return 1
}

func redisSHA1(l *thread) int {
	if l.nargs() != 1 {
		l.raise("wrong number of arguments")
	}
	v := l.arg(1)
	s, _ := toText(&v)
	h := sha1.New() //nolint:gosec // as above
	var buf [256]byte
	l.st.stretches(s, func(part string) bool {
		for part != "" {
			n := copy(buf[:], part)
			h.Write(buf[:n])
			part = part[n:]
		}
		return true
	})
	l.pushStr(hex.EncodeToString(h.Sum(nil)))
	return 1
}

func digest(s string) string {
	sum := sha1.Sum([]byte(s)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func redisErrorReply(l *thread) int {
	v := l.arg(1)
	if s, ok := v.o.(*str); ok && l.nargs() == 1 {
		text := cString(s.s)
		if !strings.HasPrefix(text, "-") {
			text = "-" + text
		}
		l.pushTable(l.st.errorTable(text))
		return 1
	}
	l.pushTable(l.st.errorTable("wrong number or type of arguments"))
	return 1
}

func redisStatusReply(l *thread) int {
	v := l.arg(1)
	if l.nargs() != 1 || !v.isStr() {
		l.pushTable(l.st.errorTable("wrong number or type of arguments"))
		return 1
	}
	l.push(single(l.st, strOK, v))
	return 1
}

func (l *thread) looseNum(i int) float64 {
	v := l.arg(i)
	n, _ := l.st.toNumber(&v)
	return n
}

func redisSetRepl(l *thread) int {
	if l.nargs() != 1 {
		l.raise("redis.set_repl() requires two arguments.")
	}
	if castInt(l.looseNum(1))&^3 != 0 {
		l.raise("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func redisReplicate(l *thread) int {
	l.pushBool(true)
	return 1
}

func redisBreakpoint(l *thread) int {
	l.pushBool(false)
	return 1
}

func redisDebug(*thread) int { return 0 }

func redisACL(l *thread) int {
	if problem := l.readArgs(); problem != "" {
		l.raise(problem)
	}
	acl, ok := l.st.host.(ACL)
	if !ok {
		l.pushBool(true)
		return 1
	}
	allowed, known := acl.Allowed(l.st.argv)
	if !known {
		l.raise("Invalid command passed to redis.acl_check_cmd()")
	}
	l.pushBool(allowed)
	return 1
}

func redisLog(l *thread) int {
	n := l.nargs()
	if n < 2 {
		l.raise("redis.log() requires two arguments or more.")
	}
	v := l.arg(1)
	level, ok := l.st.toNumber(&v)
	if !ok {
		l.raise("First argument must be a number (log level).")
	}
	if i := castInt(level); i < 0 || i > 3 {
		l.raise("Invalid debug level.")
	}
	logger, ok := l.st.host.(Logger)
	if !ok {
		return 0
	}
	held := l.st.held
	var out []byte
	for i := 2; i <= n; i++ {
		v := l.arg(i)
		if s, ok := toText(&v); ok {
			l.st.workBytes(len(s))
			out = l.st.room(out, len(s)+1)
			if i != 2 {
				out = append(out, ' ')
			}
			out = append(out, s...)
		}
	}
	l.st.charge(len(out))
	logger.Log(int(castInt(level)), string(out))
	l.st.held = held
	return 0
}

func redisSetResp(l *thread) int {
	if l.nargs() != 1 {
		l.raise("redis.setresp() requires one argument.")
	}
	switch castInt(l.looseNum(1)) {
	case 2:
		l.st.resp3 = false
	case 3:
		l.st.resp3 = true
	default:
		l.raise("RESP version must be 2 or 3.")
	}
	return 0
}

// errHandler is the handler Redis installs: it makes an error a table and
// says where it happened.
func errHandler(l *thread) int {
	v := l.arg(1)
	ci, lost := l.level(1)
	if ci != nil && ci.cl == nil {
		ci, lost = l.level(2)
	}
	l.setTop(1)
	t, ok := v.o.(*table)
	if !ok {
		s := l.toString(v)
		text, _ := toText(&s)
		l.st.workBytes(len(text))
		t = l.st.newTable(0, 1)
		*t.slot(l.st, value{o: strErr}) = l.st.str("ERR " + text)
		v = value{o: t}
	}
	source, line := "", -1
	switch {
	case t.readonly:
		// Redis' own handler, a Lua chunk, fails here and handles that.
		t = l.st.newTable(0, 1)
		*t.slot(l.st, value{o: strErr}) = l.st.str("ERR err_handler_def:10: Attempt to modify a readonly table")
		v, source, line = value{o: t}, "@err_handler_def", 10
	case lost:
		source = "=(tail call)"
	case ci != nil && ci.cl != nil:
		source, line = ci.cl.p.source, ci.line()
	case ci != nil:
		source = "=[C]"
	default:
		l.push(v)
		return 1
	}
	l.setIndex(v, value{o: strSource}, l.st.str(source), -1)
	l.setIndex(v, value{o: strLine}, num(float64(line)), -1)
	l.push(v)
	return 1
}

// errorText is the reply for an error that ended a script.
func (st *state) errorText(v value, sha string) string {
	t, ok := v.o.(*table)
	if !ok {
		text, ok := toText(&v)
		if !ok {
			text = "execution failure"
		}
		if len(text) > 100 {
			text = text[:100]
		}
		return "ERR Error running script " + sha + ", " + text
	}
	field := func(k *str) (string, bool) {
		v := t.field(k)
		s, ok := toText(&v)
		return cString(s), ok
	}
	// Redis 7.0 dies of an error table without a text; later ones say this.
	msg, ok := field(strErr)
	if !ok {
		msg = "ERR unknown error"
	}
	source, ok1 := field(strSource)
	line, ok2 := field(strLine)
	if ok1 && ok2 {
		msg += " script: " + sha + ", on " + source + ":" + line + "."
	}
	return msg
}

func versionNumber(v string) int {
	n := 0
	for _, part := range strings.SplitN(v, ".", 3) {
		i, _ := strconv.Atoi(part)
		n = n<<8 | i&255
	}
	return n
}

// rng48 is the generator behind math.random: lrand48, whose sequence after
// math.randomseed is the same everywhere. Each run begins with its own.
type rng48 uint64

func (r *rng48) seed(n int32) { *r = rng48(uint64(uint32(n))<<16 | 0x330e) }

func (r *rng48) next() int32 {
	*r = (*r*0x5deece66d + 0xb) & (1<<48 - 1)
	return int32(*r >> 17)
}
