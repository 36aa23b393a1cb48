package lua

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// ErrInternal is what Run returns when it met a fault of its own or of the
// Host, which it recovered from.
var ErrInternal = errors.New("lua: internal error")

// A ScriptError is an error that a script raised and did not catch. Its text
// is the error reply, code first.
type ScriptError struct{ Text string }

func (e *ScriptError) Error() string { return e.Text }

// A Proto is a compiled script. It never changes: any number of runs may use
// it at once.
type Proto struct {
	main  *proto
	sha   string
	flags []string
	size  int
}

// Size is about how many bytes the compiled script takes, with its source.
func (p *Proto) Size() int { return p.size }

// SHA is the 40 hexadecimal digits that name the script.
func (p *Proto) SHA() string { return p.sha }

// Flags are the flags in the script's first line, "#!lua flags=no-writes". They
// are nil for a script without such a line, which Redis treats differently
// from one that has the line and no flags.
func (p *Proto) Flags() []string { return p.flags }

// Compile compiles a script under a name that errors show; Redis uses
// "user_script". The error's text is Redis' error reply without its code.
func Compile(name, source string) (p *Proto, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("%w: %v", ErrInternal, r)
		}
	}()
	flags, body, err := shebang(source)
	if err != nil {
		return nil, err
	}
	main, size, serr := compile(nil, body, "@"+name, 0)
	if serr != nil {
		return nil, errors.New("Error compiling script (new function): " + oneLine(serr.msg))
	}
	return &Proto{main: main, sha: digest(source), flags: flags, size: size + len(source)}, nil
}

// shebang reads the first line of a script when it begins with #!, and
// returns the script without it; its line end stays, so that lines count.
func shebang(source string) (flags []string, body string, err error) {
	if !strings.HasPrefix(source, "#!") {
		return nil, source, nil
	}
	line, _, found := strings.Cut(source, "\n")
	if !found {
		return nil, "", errors.New("Invalid script shebang") //nolint:staticcheck // Redis' text
	}
	parts := strings.Fields(line)
	if parts[0] != "#!lua" {
		return nil, "", errors.New("Unexpected engine in script shebang: " + parts[0])
	}
	flags = []string{}
	for _, part := range parts[1:] {
		list, ok := strings.CutPrefix(part, "flags=")
		if !ok {
			return nil, "", errors.New("Unknown lua shebang option: " + part)
		}
		if list == "" {
			continue
		}
		for f := range strings.SplitSeq(list, ",") {
			switch f {
			case "no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys":
				flags = append(flags, f)
			default:
				return nil, "", errors.New("Unexpected flag in script shebang: " + f)
			}
		}
	}
	return flags, source[len(line):], nil
}

// Options are the limits of a Runtime's runs.
type Options struct {
	// Memory is how many bytes a run may hold at once: strings, tables,
	// functions, compiled code, stacks, and what its natives put together.
	// Defaults to 64 MiB.
	Memory int
	// TotalMemory is how many bytes all runs together may hold, without the first 256 KiB
	// of each. A run that would exceed it gets an error, as with Memory. Defaults to four
	// times Memory.
	TotalMemory int
	// Steps is how many calls, turns of loops and like units of work in
	// libraries a run may take. Defaults to no limit.
	Steps int64
	// Version is what scripts read in redis.REDIS_VERSION. Defaults to
	// "7.0.15".
	Version string
}

// A Runtime runs scripts on pooled states. All methods may be called by many
// goroutines at once.
type Runtime struct {
	opts   Options
	pool   sync.Pool
	shared shared
}

// NewRuntime returns a Runtime. Negative limits are refused.
func NewRuntime(o Options) (*Runtime, error) {
	if o.Memory < 0 || o.TotalMemory < 0 || o.Steps < 0 {
		return nil, errors.New("lua: negative limit")
	}
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	if o.TotalMemory == 0 {
		o.TotalMemory = 4 * o.Memory
	}
	if o.Version == "" {
		o.Version = "7.0.15"
	}
	rt := &Runtime{opts: o}
	rt.shared.total = o.TotalMemory
	rt.shared.text = constant(fmt.Sprintf("not enough memory: the scripts that run at once may hold %d bytes", o.TotalMemory))
	return rt, nil
}

// An Invocation is what one run of a script is given. Only Host is needed.
type Invocation struct {
	Host Host
	// Keys and Args become KEYS and ARGV.
	Keys, Args []string
	// Interrupt ends the run when it is set.
	Interrupt *Interrupt
	// Deadline ends the run; zero means never.
	Deadline time.Time
	// Long is called once, inside of the run, when it has taken some thousand
	// steps.
	Long func()
	// Steps bounds the run in place of Options.Steps, when not zero.
	Steps int64

	looked func(steps int) // of tests: called at each look, with the steps since the last
}

// Run runs a script and writes exactly one reply to w. The error is nil when
// the script returned; a *ScriptError when it raised one; and one that
// matches ErrKilled, ErrBudget, ErrDeadline, ErrMemory or ErrInternal when it
// was stopped. In each case the reply has been written, an error too. The
// effects of the script's commands before an error remain.
func (rt *Runtime) Run(p *Proto, inv Invocation, w Writer) (err error) {
	st, _ := rt.pool.Get().(*state)
	if st == nil {
		st = newState(rt.opts, false)
	}
	defer func() {
		r := recover()
		st.release()
		if r == nil {
			st.reset()
			rt.pool.Put(st)
			return
		}
		// The state may be broken: it is not used again.
		err = fmt.Errorf("%w: %v\n%s", ErrInternal, r, debug.Stack())
		if !st.answering {
			w.Error("ERR Error running script " + p.sha + ", internal error")
		}
	}()
	st.begin(&inv, rt)
	v, err := st.run(p)
	if err != nil {
		return st.stopped(w, err)
	}
	return st.answer(w, v)
}
