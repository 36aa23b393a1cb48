package engine

import (
	"log/slog"

	"github.com/redoubt-go/redoubt/internal/lua"
)

// The engine decides before a script runs which shards the script locks, because a script can't be
// undone when it uses an undeclared key. On Redis a script may use any key, so by default it locks
// all shards. It locks only the shards of KEYS when it is known to keep to them: by its text, or
// because it has a Native. Rejected: locking the shards of KEYS first and others when they are
// used, which breaks the order of locks or loses writes; trusting a script that has kept to its
// keys so far.

// keepsToKeys reports whether a command that runs a script needs only the shards
// of the keys that it declares.
func (c *call) keepsToKeys(cmd *command, args [][]byte) bool {
	n, why := declared(args)
	if why != "" {
		return true // an error
	}
	if cmd.flags&flagFunction != 0 {
		return c.e.opts.StrictKeys && n > 0
	}
	source, isEval := cmd.source(args)
	if isEval && cmd == c.cmd { // a transaction compiles its scripts when they are queued
		c.script.script, c.script.err = c.s.load(source)
	}
	switch {
	case c.e.opts.StrictKeys:
		return true
	case n == 0: // it isn't about any keys: it runs as on Redis
		return isEval && c.script.err != nil
	case isEval:
		return c.script.err != nil || c.script.script.keysOnly
	}
	// One that is unknown may be loaded by the time that it runs, which is
	// so for certain when the same transaction loads it.
	sc := c.s.script(args[1])
	return sc != nil && sc.keysOnly
}

// compiled is a compiled script, or the error of compiling it.
type compiled struct {
	script *script
	err    error
}

// compiledSize is about how many bytes a byte of source takes once it is compiled.
const compiledSize = 16

// source returns the text of the script among a command's arguments, if there is one.
func (cmd *command) source(args [][]byte) (text []byte, ok bool) {
	switch cmd.Name {
	case "eval", "eval_ro":
		return args[1], true
	case "script|load":
		return args[2], true
	}
	return nil, false
}

// load is the cache's load for a session, and tries the session's last EVAL first. Each EVAL needs
// its script twice, to lock and to run.
func (s *Session) load(source []byte) (*script, error) {
	flushes := s.e.cache.flushes.Load()
	if last := s.lastEval; last != nil && last.source == text(source) && flushes == s.evalFlushes {
		return last, nil
	}
	found, err := s.e.cache.load(source, false, s.e)
	if s.lastEval, s.evalFlushes = found, flushes; found != nil && found.size > smallScript {
		s.lastEval = nil
	}
	return found, err
}

// declared is how many keys EVAL is given, or the error.
func declared(args [][]byte) (n int, why string) {
	switch k, ok := parseInt(args[2]); {
	case !ok:
		return 0, errNotInt
	case k > int64(len(args)-3):
		return 0, "ERR Number of keys can't be greater than number of args"
	case k < 0:
		return 0, "ERR Number of keys can't be negative"
	default:
		return int(k), ""
	}
}

// declares reports whether the text of a script shows that it uses only the keys in KEYS.
func declares(p *lua.Proto) bool {
	calls, ok := p.Calls()
	for i := range calls {
		ok = ok && usesKeys(&calls[i])
	}
	return ok
}

// usesKeys reports whether a command of a script uses only the keys in KEYS, whatever its other
// arguments are.
func usesKeys(call *lua.Call) bool {
	var words [][]byte // as far as they are known
	for _, a := range call.Args {
		if !a.Known {
			break
		}
		words = append(words, []byte(a.Text))
	}
	if len(words) == 0 {
		return false
	}
	cmd := find(words[0])
	if cmd != nil && cmd.subIndex != nil {
		if len(words) < 2 {
			return false
		}
		cmd = cmd.resolve(words)
	}
	switch {
	case cmd == nil:
		return true // an error
	case cmd.flags&(flagAllShards|flagEveryShard) != 0 || cmd.Movable():
		whole := len(words) == len(call.Args) && call.Rest == lua.NoRest
		return whole && !cmd.Movable() && cmd.narrow(words)
	case cmd.First == 0 || cmd.flags&flagNoLock != 0:
		return true
	}
	last := cmd.Last
	if last < 0 {
		last += len(call.Args)
		if call.Rest == lua.RestOther || call.Rest == lua.RestKeys && (cmd.Last != -1 || cmd.Step != 1) {
			return false
		}
	}
	for i := cmd.First; i <= last; i += cmd.Step {
		switch {
		case i >= len(call.Args):
			return call.Rest != lua.RestOther // too few for the command, or keys
		case !call.Args[i].Key:
			return false
		}
	}
	return true
}

// mistaken is called when a script is refused a key. Without StrictKeys that is a fault: the
// analysis took the script for one that keeps to its keys.
func (e *Engine) mistaken(digest string) {
	if log := e.opts.Logger; log != nil && !e.opts.StrictKeys {
		log.Error("a script used a key that it was not expected to", slog.String("script", digest))
	}
}
