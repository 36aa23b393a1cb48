package engine

import (
	"crypto/sha1" //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/lua"
)

const (
	digestLen   = 2 * sha1.Size
	errNoScript = "NOSCRIPT No matching script. Please use EVAL."
)

// A script is one that was loaded.
type script struct {
	digest   string
	proto    *lua.Proto
	native   Native // nil for most
	allowOOM bool   // by its first line, as the next two
	readOnly bool
	mayWrite bool // the same, said the other way round: it has such a line
	keysOnly bool // uses only the keys in KEYS
	source   string
	size     int  // in bytes, compiled, with its source
	kept     bool // by SCRIPT LOAD
}

// A scriptCache holds the scripts that EVALSHA can name: scripts of SCRIPT LOAD until they are
// flushed, and the latest scripts of EVAL.
type scriptCache struct {
	mu       sync.RWMutex
	byDigest map[string]*script
	flushes  atomic.Int64
	kept     int       // bytes of the scripts of SCRIPT LOAD
	passing  []*script // the others, oldest first
	bytes    int       // bytes of the scripts of EVAL
}

// smallScript is the largest script, in bytes, that a session remembers. The script then stays in
// memory after the cache has dropped it.
const smallScript = 64 << 10

var (
	errManyScripts = errors.New("the scripts that are loaded are too large together: SCRIPT FLUSH")
	errLongScript  = errors.New("the script is too long")
)

// load returns the script with the text given, compiled now when it is new.
// keep says that it stays until it is flushed.
func (sc *scriptCache) load(source []byte, keep bool, e *Engine) (*script, error) {
	digest := digestOf(source)
	if s := sc.find(digest[:]); s != nil && (!keep || s.kept) {
		return s, nil
	}
	s, err := e.compile(digest, source)
	if err != nil {
		return nil, err
	}
	return sc.add(s, keep, &e.bounds)
}

// read is load that leaves the cache as it is.
func (sc *scriptCache) read(source []byte, e *Engine) (*script, error) {
	digest := digestOf(source)
	if s := sc.find(digest[:]); s != nil {
		return s, nil
	}
	return e.compile(digest, source)
}

func digestOf(source []byte) (digest [digestLen]byte) {
	sum := sha1.Sum(source) //nolint:gosec // as above
	hex.Encode(digest[:], sum[:])
	return digest
}

// compile takes time in proportion to the source. The caller holds no shard.
func (e *Engine) compile(digest [digestLen]byte, source []byte) (*script, error) {
	if most := e.bounds.source; len(source) > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", errLongScript, len(source), most)
	}
	text := string(source)
	proto, err := lua.Compile("user_script", text)
	if err != nil {
		return nil, err
	}
	s := &script{digest: string(digest[:]), proto: proto, native: e.opts.Natives[string(digest[:])], source: text, size: proto.Size()}
	s.keysOnly = s.native != nil || declares(proto)
	if flags := proto.Flags(); flags != nil {
		s.mayWrite = true
		for _, f := range flags {
			switch f {
			case "no-writes":
				s.readOnly, s.mayWrite = true, false
			case "allow-oom":
				s.allowOOM = true
			}
		}
	}
	return s, nil
}

func (sc *scriptCache) add(s *script, keep bool, b *bounds) (*script, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	old := sc.byDigest[s.digest]
	switch {
	case keep && (old == nil || !old.kept) && sc.kept+s.size > b.loaded:
		return nil, errManyScripts
	case old != nil && (old.kept || !keep):
		return old, nil
	case old != nil:
		sc.drop(old)
	case sc.byDigest == nil:
		sc.byDigest = map[string]*script{}
	}
	sc.byDigest[s.digest] = s
	if s.kept = keep; keep {
		sc.kept += s.size
		return s, nil
	}
	sc.passing = append(sc.passing, s)
	sc.bytes += s.size
	for len(sc.passing) > b.evals || sc.bytes > b.evalBytes && len(sc.passing) > 1 {
		sc.drop(sc.passing[0])
	}
	return s, nil
}

// drop forgets a script that came by EVAL. Sessions that ran it last may go on.
func (sc *scriptCache) drop(s *script) {
	i := slices.Index(sc.passing, s)
	sc.passing = slices.Delete(sc.passing, i, i+1)
	sc.bytes -= s.size
	delete(sc.byDigest, s.digest)
}

// find returns the script of a digest, in any case, or nil.
func (sc *scriptCache) find(digest []byte) *script {
	if len(digest) != digestLen {
		return nil
	}
	var low [digestLen]byte
	for i, b := range digest {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	return sc.byDigest[string(low[:])]
}

func (sc *scriptCache) len() int {
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	return len(sc.byDigest)
}

func (sc *scriptCache) flush() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.byDigest, sc.passing, sc.kept, sc.bytes = nil, nil, 0, 0
	sc.flushes.Add(1)
}

// script is find for a session. It tries the session's last script first, without a lock that cores
// share.
func (s *Session) script(digest []byte) *script {
	flushes := s.e.cache.flushes.Load()
	if last := s.lastScript; last != nil && last.digest == text(digest) && flushes == s.scriptFlushes {
		return last
	}
	found := s.e.cache.find(digest)
	if s.lastScript, s.scriptFlushes = found, flushes; found != nil && found.size > smallScript {
		s.lastScript = nil
	}
	return found
}

func cmdScriptLoad(c *call) {
	sc, err := c.script.script, c.script.err
	switch {
	case !c.s.executing:
		sc, err = c.e.cache.load(c.args[2], true, c.e)
	case err == nil:
		sc, err = c.e.cache.add(sc, true, &c.e.bounds)
	}
	if err != nil {
		c.err("ERR " + err.Error())
		return
	}
	c.str(sc.digest)
}

func cmdScriptExists(c *call) {
	c.array(len(c.args) - 2)
	for _, digest := range c.args[2:] {
		c.boolInt(c.e.cache.find(digest) != nil)
	}
}

func cmdScriptFlush(c *call) {
	if !c.flushMode("ERR SCRIPT FLUSH only support SYNC|ASYNC option") {
		return
	}
	c.e.cache.flush()
	c.ok()
}

// flushMode checks the optional last argument of SCRIPT FLUSH and its like.
func (c *call) flushMode(otherwise string) bool {
	if len(c.args) == 2 || len(c.args) == 3 && (is(c.args[2], "sync") || is(c.args[2], "async")) {
		return true
	}
	c.err(otherwise)
	return false
}

func cmdScriptKill(c *call) {
	killed, unkillable := c.e.scripts.kill()
	switch {
	case killed > 0:
		c.ok()
	case unkillable > 0:
		c.err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.")
	default:
		c.err("NOTBUSY No scripts in execution right now.")
	}
}

func cmdScriptDebug(c *call) {
	switch {
	case is(c.args[2], "no"):
		c.ok()
	case is(c.args[2], "yes"), is(c.args[2], "sync"):
		c.err("ERR this engine has no debugger for scripts")
	default:
		c.err("ERR Use SCRIPT DEBUG YES/SYNC/NO")
	}
}

// Functions can't be loaded, so there are none.

const errFunctions = "ERR functions are not supported by this engine: use EVAL, or SCRIPT LOAD and EVALSHA"

func cmdFcall(c *call)           { c.err("ERR Function not found") }
func cmdFcallRo(c *call)         { c.err("ERR Function not found") }
func cmdFunctionLoad(c *call)    { c.err(errFunctions) }
func cmdFunctionRestore(c *call) { c.err(errFunctions) }
func cmdFunctionDump(c *call)    { c.err(errFunctions) }
func cmdFunctionDelete(c *call)  { c.err("ERR Library not found") }
func cmdFunctionKill(c *call)    { c.err("NOTBUSY No scripts in execution right now.") }

func cmdFunctionFlush(c *call) {
	if c.flushMode("ERR FUNCTION FLUSH only supports SYNC|ASYNC option") {
		c.ok()
	}
}

func cmdFunctionList(c *call) {
	for i := 2; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "withcode"):
		case is(c.args[i], "libraryname") && i+1 < len(c.args):
			i++
		case is(c.args[i], "libraryname"):
			c.err("ERR library name argument was not given")
			return
		default:
			c.err("ERR Unknown argument " + clip(c.args[i], 128))
			return
		}
	}
	c.array(0)
}

func cmdFunctionStats(c *call) {
	c.mapHead(2)
	c.str("running_script")
	c.null()
	c.str("engines")
	c.mapHead(0)
}
