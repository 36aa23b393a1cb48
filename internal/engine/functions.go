package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/lua"
	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A library is one of FUNCTION LOAD. Its functions run one at a time: they share variables.
type library struct {
	name, code string
	mu         sync.Mutex
	lua        *lua.Library
}

// A function is one that a library registered.
type function struct {
	*lua.Function
	of       *library
	readOnly bool // no-writes
	allowOOM bool
}

// functions are the libraries of an engine. Only calls that hold all shards change them.
type functions struct {
	mu     sync.RWMutex
	all    []*library           // in the order in which they were loaded
	byName map[string]*function // in lower case, as FCALL takes any case
	bytes  int                  // of code
}

// find returns the function with a name, in any case, or nil.
func (fs *functions) find(name []byte) *function {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if f := fs.byName[text(name)]; f != nil || len(name) > 1<<10 {
		return f
	}
	return fs.byName[lower(string(name))]
}

// lower is a name in lower case. Names have ASCII letters alone.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

// list returns the libraries.
func (fs *functions) list() []*library {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return slices.Clone(fs.all)
}

// counts returns how many libraries and functions there are.
func (fs *functions) counts() (libraries, functions int) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return len(fs.all), len(fs.byName)
}

// replace makes all the libraries, and closes libraries that are gone. The error names two functions that collide.
// Its work is that of the libraries that come and go.
func (fs *functions) replace(all []*library, most int) error {
	if len(all) > mostLibraries && len(all) > len(fs.all) {
		return fmt.Errorf("there are %d libraries already: FUNCTION DELETE some", mostLibraries)
	}
	size, gone := 0, map[*library]bool{}
	for _, l := range fs.all {
		gone[l] = true
	}
	var come []*library
	for _, l := range all {
		size += len(l.code)
		if !gone[l] {
			come = append(come, l)
		}
		delete(gone, l)
	}
	if size > most && size > fs.bytes {
		return fmt.Errorf("the libraries together have more than %d bytes: FUNCTION DELETE some", most)
	}
	added := map[string]*function{}
	for _, l := range come {
		for _, f := range l.lua.Functions {
			key := lower(f.Name)
			if old := fs.byName[key]; old != nil && !gone[old.of] || added[key] != nil && added[key].of != l {
				return fmt.Errorf("Function %s already exists", f.Name) //nolint:staticcheck // Redis' text
			}
			if added[key] == nil {
				added[key] = &function{
					Function: f, of: l, readOnly: slices.Contains(f.Flags, "no-writes"), allowOOM: slices.Contains(f.Flags, "allow-oom"),
				}
			}
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for l := range gone {
		for _, f := range l.lua.Functions {
			delete(fs.byName, lower(f.Name))
		}
		l.lua.Close()
	}
	if fs.byName == nil {
		fs.byName = map[string]*function{}
	}
	maps.Copy(fs.byName, added)
	fs.all, fs.bytes = all, size
	return nil
}

// mostLibraries is how many libraries there may be. Each has a Lua machine of its own.
const mostLibraries = 1000

// index returns where the library with a name is, or -1.
func index(all []*library, name string) int {
	return slices.IndexFunc(all, func(l *library) bool { return l.name == name })
}

// loadTimeout bounds how long the code of a library, or of all of one FUNCTION RESTORE, may run when it is loaded.
const loadTimeout = 500 * time.Millisecond

// loadDeadline is when the code of the libraries of a command must have ended. A call that repeats has no such time: the code has ended before.
func (c *call) loadDeadline() time.Time {
	if c.replays() {
		return time.Time{}
	}
	return time.Now().Add(loadTimeout)
}

// newLibrary runs the code of a library until the deadline, if that is not zero. The errors have Redis' texts.
func (e *Engine) newLibrary(code string, deadline time.Time) (*library, error) {
	name, body, err := libraryHead(code)
	if err != nil {
		return nil, err
	}
	if most := e.bounds.source; len(code) > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", errLongScript, len(code), most)
	}
	inv := lua.Invocation{Deadline: deadline, Interrupt: &e.scripts.loads}
	if deadline.IsZero() { // it ended when it was logged
		inv = lua.Invocation{Steps: math.MaxInt64}
	}
	l, err := e.lua.Load(body, inv)
	if err != nil {
		if errors.Is(err, lua.ErrInternal) {
			e.panicked("library", name, err)
			err = errors.New("internal error")
		}
		return nil, err
	}
	return &library{name: name, code: code, lua: l}, nil
}

// libraryHead reads the first line of a library and returns the code behind it. The errors have Redis' texts.
func libraryHead(code string) (name, body string, err error) {
	h, err := rdb.ParseLibrary(code)
	switch {
	case err != nil:
		return "", "", err
	case !lua.IsLibraryName(h.Name):
		return "", "", errors.New(lua.LibraryNameRule) //nolint:staticcheck // Redis' text
	case !strings.EqualFold(h.Engine, "lua"):
		return "", "", fmt.Errorf("Engine '%s' not found", h.Engine)
	}
	return h.Name, h.Body, nil
}

func cmdFunctionLoad(c *call) {
	replace := false
	for _, a := range c.args[2 : len(c.args)-1] {
		if !is(a, "replace") {
			c.err("ERR Unknown option given: " + clip(a, 128))
			return
		}
		replace = true
	}
	code := string(c.args[len(c.args)-1])
	all := c.e.functions.list()
	name, _, err := libraryHead(code)
	at := index(all, name)
	if err == nil && at >= 0 && !replace {
		err = fmt.Errorf("Library '%s' already exists", name) //nolint:staticcheck // Redis' text
	}
	var l *library
	if err == nil {
		l, err = c.e.newLibrary(code, c.loadDeadline())
	}
	if err != nil {
		c.err("ERR " + err.Error())
		return
	}
	if at >= 0 {
		all[at] = l
	} else {
		all = append(all, l)
	}
	if err := c.e.functions.replace(all, c.e.bounds.loaded); err != nil {
		l.lua.Close()
		c.err("ERR " + err.Error())
		return
	}
	c.dirty++
	c.str(l.name)
}

func cmdFunctionDelete(c *call) {
	all := c.e.functions.list()
	i := index(all, string(c.args[2]))
	if i < 0 {
		c.err("ERR Library not found")
		return
	}
	_ = c.e.functions.replace(slices.Delete(all, i, i+1), c.e.bounds.loaded) // fewer don't collide
	c.dirty++
	c.ok()
}

func cmdFunctionFlush(c *call) {
	if len(c.args) > 3 {
		c.unknownForm()
		return
	}
	if c.flushMode("ERR FUNCTION FLUSH only supports SYNC|ASYNC option") {
		_ = c.e.functions.replace(nil, c.e.bounds.loaded) // none don't collide
		c.dirty++
		c.ok()
	}
}

func cmdFunctionDump(c *call) {
	var code []string
	for _, l := range c.e.functions.list() {
		code = append(code, l.code)
	}
	c.bulk(rdb.Functions(nil, code))
}

func cmdFunctionRestore(c *call) {
	policy := "append"
	if len(c.args) == 4 {
		policy = strings.ToLower(clip(c.args[3], 16))
	}
	switch {
	case len(c.args) > 4:
		c.unknownForm()
		return
	case policy != "append" && policy != "replace" && policy != "flush":
		c.err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
		return
	}
	restored, err := c.e.restored(c.args[2], c.loadDeadline())
	if err == nil {
		err = c.e.join(restored, policy)
	}
	if err != nil {
		for _, l := range restored {
			l.lua.Close()
		}
		c.err("ERR " + err.Error())
		return
	}
	c.dirty++
	c.ok()
}

// restored returns the libraries of a payload of FUNCTION DUMP, also those before an error.
func (e *Engine) restored(payload []byte, deadline time.Time) (all []*library, err error) {
	code, err := rdb.ParseFunctions(payload, int64(e.bounds.loaded))
	switch {
	case errors.Is(err, rdb.ErrNoFunctions):
		return nil, errors.New("given type is not a function")
	case errors.Is(err, rdb.ErrChecksum):
		return nil, errors.New("DUMP payload version or checksum are wrong")
	case err != nil:
		return nil, errors.New("failed loading the given functions payload")
	}
	for _, text := range code {
		l, err := e.newLibrary(text, deadline)
		if err != nil {
			return all, err
		}
		all = append(all, l)
		if i := index(all, l.name); i < len(all)-1 {
			return all, fmt.Errorf("Library '%s' already exists", l.name) //nolint:staticcheck // Redis' text
		}
	}
	return all, nil
}

// join adds libraries to the engine.
func (e *Engine) join(restored []*library, policy string) error {
	all := e.functions.list()
	if policy == "flush" {
		all = nil
	}
	for _, l := range restored {
		switch i := index(all, l.name); {
		case i < 0:
			all = append(all, l)
		case policy == "replace":
			all[i] = l
		default:
			return fmt.Errorf("Library %s already exists", l.name) //nolint:staticcheck // Redis' text
		}
	}
	return e.functions.replace(all, e.bounds.loaded)
}

func cmdFunctionList(c *call) {
	var pattern []byte
	named, withCode := false, false
	for i := 2; i < len(c.args); i++ {
		switch {
		case !withCode && is(c.args[i], "withcode"):
			withCode = true
		case !named && is(c.args[i], "libraryname"):
			if i++; i == len(c.args) {
				c.err("ERR library name argument was not given")
				return
			}
			pattern, named = c.args[i], true
		default:
			c.err("ERR Unknown argument " + clip(c.args[i], 128))
			return
		}
	}
	all := c.e.functions.list()
	if named {
		all = slices.DeleteFunc(all, func(l *library) bool { return !glob.MatchFold(pattern, []byte(l.name)) })
	}
	c.array(len(all))
	for _, l := range all {
		c.listLibrary(l, withCode)
	}
}

func (c *call) listLibrary(l *library, withCode bool) { //nolint:revive // the parameter is an option of the command
	n := 3
	if withCode {
		n++
	}
	c.mapHead(n)
	c.str("library_name")
	c.str(l.name)
	c.str("engine")
	c.str("LUA")
	c.str("functions")
	c.array(len(l.lua.Functions))
	for _, f := range l.lua.Functions {
		c.mapHead(3)
		c.str("name")
		c.str(f.Name)
		c.str("description")
		if f.Described {
			c.str(f.Description)
		} else {
			c.null()
		}
		c.str("flags")
		c.setHead(len(f.Flags))
		for _, flag := range f.Flags {
			c.status(flag)
		}
	}
	if withCode {
		c.str("library_code")
		c.str(l.code)
	}
}

func cmdFunctionStats(c *call) {
	name, command, since, eval := c.e.scripts.stats()
	if name == "" && eval {
		c.err(busy)
		return
	}
	c.mapHead(2)
	c.str("running_script")
	if name == "" {
		c.null()
	} else {
		c.mapHead(3)
		c.str("name")
		c.str(name)
		c.str("command")
		c.array(len(command))
		for _, a := range command {
			c.bulk(a)
		}
		c.str("duration_ms")
		c.int(time.Since(since).Milliseconds())
	}
	libraries, functions := c.e.functions.counts()
	c.str("engines")
	c.mapHead(1)
	c.str("LUA")
	c.mapHead(2)
	c.str("libraries_count")
	c.int(int64(libraries))
	c.str("functions_count")
	c.int(int64(functions))
}

func cmdFunctionKill(c *call) { c.kill(false) }

func cmdFunctionHelp(c *call) {
	c.helpLines(
		"LOAD [REPLACE] <FUNCTION CODE>",
		"    Create a new library with the given library name and code.",
		"DELETE <LIBRARY NAME>",
		"    Delete the given library.",
		"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
		"    Return general information on all the libraries:",
		"    * Library name",
		"    * The engine used to run the Library",
		"    * Library description",
		"    * Functions list",
		"    * Library code (if WITHCODE is given)",
		"    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
		"STATS",
		"    Return information about the current function running:",
		"    * Function name",
		"    * Command used to run the function",
		"    * Duration in MS that the function is running",
		"    If no function is running, return nil",
		"    In addition, returns a list of available engines.",
		"KILL",
		"    Kill the current running function.",
		"FLUSH [ASYNC|SYNC]",
		"    Delete all the libraries.",
		"    When called without the optional mode argument, the behavior is determined by the",
		"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
		"    * ASYNC: Asynchronously flush the libraries.",
		"    * SYNC: Synchronously flush the libraries.",
		"DUMP",
		"    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
		"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
		"    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
		"    control how to handle existing libraries (default APPEND):",
		"    * FLUSH: delete all existing libraries.",
		"    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
		"    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
		"      libraries with the new libraries (notice that even on this option there is a chance of failure",
		"      in case of functions name collision with another library).",
	)
}

func cmdFcall(c *call)   { c.fcall(false) }
func cmdFcallRo(c *call) { c.fcall(true) }

// fcall runs a function. Unless the engine has StrictKeys it holds all shards, as a script may that uses keys that
// it has not declared.
func (c *call) fcall(readOnly bool) {
	f := c.e.functions.find(c.args[1])
	if f == nil {
		c.err("ERR Function not found")
		return
	}
	n, why := declared(c.args)
	switch {
	case why == errNotInt:
		c.err("ERR Bad number of keys provided")
		return
	case why != "":
		c.err(why)
		return
	case readOnly && !f.readOnly:
		c.err("ERR Can not execute a script with write flag using *_ro command.")
		return
	case c.oom && f.needsRoom():
		c.err(errOOM)
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	h := c.beginScript("", c.args[3:3+n])
	h.readOnly, h.allowOOM = f.readOnly, f.allowOOM
	db := c.s.db
	defer func() {
		c.s.db = db
		h.release()
	}()
	h.run.function = f.Name
	h.run.command = func() [][]byte { return cloneArgs(c.args) }
	h.onLua(c.args[3:3+n], c.args[3+n:], f.Name, func(inv lua.Invocation) error {
		return f.of.lua.Call(f.Function, inv, (*scriptReply)(c))
	})
}

// needsRoom says whether a function is refused above the limit of memory.
func (f *function) needsRoom() bool { return !f.readOnly && !f.allowOOM }

// dumpFunctions passes to emit the commands that load all libraries.
func (e *Engine) dumpFunctions(emit func(db int, commands [][][]byte) error) error {
	for _, l := range e.functions.list() {
		if err := emit(0, [][][]byte{{[]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), []byte(l.code)}}); err != nil {
			return err
		}
	}
	return nil
}
