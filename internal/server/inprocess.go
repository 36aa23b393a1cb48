package server

import (
	"bytes"
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Session runs a client's commands in this process: see [Options.Sessions].
// One goroutine at a time may use it.
type Session interface {
	// Run runs a command and appends its reply to dst. A command that waits, waits
	// until ctx ends. Run doesn't change or keep the arguments.
	Run(ctx context.Context, dst []byte, args [][]byte) []byte
	// Quick reports whether a command takes microseconds, unless it has to wait
	// or replies with a large value.
	Quick(args [][]byte) bool
	// TryRun is Run that never waits. If the command would wait, TryRun runs and
	// appends nothing, and ran is false.
	TryRun(dst []byte, args [][]byte) (out []byte, ran bool)
	// Sync waits until all that the replies so far depend on is as safe as the
	// back end promises. After an error no reply since the last Sync may leave. The
	// error's text is the error reply in their place.
	Sync() error
	// Synced reports whether Sync would return at once.
	Synced() bool
	// SetProtocol changes the version in which replies are written.
	SetProtocol(p resp.Protocol)
	// SetAccount sets the account of the memory that replies take while they are made. Each call
	// of part opens a part of it, for one buffer. hold sets the bytes of that part. It reports
	// false when there is no room for them: then the reply is an error.
	SetAccount(part func() (hold func(bytes int) bool))
	// SetLimits sets the function that says, at the begin of each script with a digest and keys, which commands
	// the script may not run. asks is for redis.acl_check_cmd, and runs for a command that the script runs. Both return
	// the error, or "". Both may be nil: then it may run all.
	SetLimits(limits func(digest string, keys [][]byte) (asks, runs func(args [][]byte) string))
	// HandedOver says that the caller counts the memory of the replies so far from now on.
	HandedOver()
	// Close forgets the session.
	Close()
}

// A counter is a Session with statistics by command and a slow log. The commands that run between Begin and
// End run for one that is called name, with args. With answered, it counts even if none has run, and with failed as one
// with an error for its reply.
type counter interface {
	Begin(name string, args [][]byte)
	End(answered, failed bool)
	// Answered counts a command that the caller has answered without Begin. Refused counts a command that the client has
	// no right to. CountError counts an error reply of the caller's.
	Answered(name string, failed bool)
	Refused(name string)
	CountError(text string)
	// ACLLogLen is the setting acllog-max-len.
	ACLLogLen() int
	// SetOuter sets what has the settings of CONFIG that are this server's own.
	SetOuter(o outerSettings)
	// SetNamer sets the function that returns the client's name.
	SetNamer(name func() string)
	// Holds reports whether commands may have to wait, because of CLIENT PAUSE or a slow script.
	Holds() bool
	// Held reports whether CLIENT PAUSE holds a command of Redis back. writes is for EXEC: whether the transaction
	// does. Without args it is a command of the server's own, which writes or not.
	Held(args [][]byte, writes bool) bool
	// MayWrite reports whether a command of Redis may change keys or publish a message.
	MayWrite(args [][]byte) bool
	// AwaitPause waits while a command is Held. It reports false when ctx ended first.
	AwaitPause(ctx context.Context, args [][]byte, writes bool) bool
}

// A prefetcher is a Session that can bring what commands need into the processor's cache, many at a time.
type prefetcher interface {
	// Prefetch is told two arguments of each command that follows: in most of them a key, and a field or a member. It
	// reports false if there was nothing to load.
	Prefetch(keys, members [][]byte) (useful bool)
}

// inprocess is the route to an engine in this process: commands run in the goroutine that reads
// them, a poller's or one of the client's own. Their replies come at once, so they are in order
// without the ring of slots.
type inprocess struct {
	direct

	engine      Session
	prefetcher  prefetcher
	ahead       uint64   // the keys of the commands before this one were prefetched
	keys        [][]byte // scratch
	members     [][]byte // scratch
	replies     []byte   // to the commands of the span
	tag         uint64   // of the first of them
	n           int
	line        []byte // a command made here
	lineScanner resp.CommandScanner
}

// mostAhead is how many commands have their keys prefetched together. The processor waits for about as many loads at
// once, and their memory is still in its cache when the last of them runs.
const mostAhead = 16

// restAhead is how many commands run without a look ahead after one that was in vain.
const restAhead = 15 * mostAhead

// handOver is how many bytes of replies gather before they are written while
// more commands run.
const handOver = 64 << 10

func (r *inprocess) dispatch(args [][]byte, raw []byte) {
	h := r.srv.lookup(args[0])
	if h != nil || !r.plain() || !r.rights.permitPlain(&r.known, args) {
		r.special(h, args, raw)
		return
	}
	if r.next >= r.ahead && len(raw) < r.to-r.from && r.prefetcher != nil {
		r.prefetch()
	}
	r.commands[Passed]++
	if r.n == 0 {
		r.tag = r.next
	}
	r.n++
	r.next++
	r.replies = r.execute(r.replies, args)
	if len(r.replies) >= handOver {
		r.sendSpan()
		r.out.Flush()
	}
}

// prefetch is called when the client has sent several commands at once.
func (r *inprocess) prefetch() {
	keys, members, rest := r.keys[:0], r.members[:0], r.buf[r.from:r.to]
	for len(keys) < mostAhead {
		key, member, n := resp.Peek(rest)
		if n == 0 {
			break
		}
		keys, members, rest = append(keys, key), append(members, member), rest[n:]
	}
	r.keys, r.members = keys, members
	r.ahead = r.next + uint64(len(keys))
	if !r.prefetcher.Prefetch(keys, members) {
		r.ahead += restAhead // the next commands are probably of the same kind
	}
}

func (r *inprocess) forward(raw []byte, change translate) {
	r.out.Reply(r.prepare(slot{change: change}), r.runLine(raw))
}

func (r *inprocess) script(_ *handler, _ [][]byte, p command.Plan) {
	r.as(Rewritten)
	r.out.Reply(r.prepareScript(p), r.runScript(p.Cmd))
}

// run lets the engine count what it doesn't see: commands that are answered here, and commands that it sees
// as scripts.
func (r *inprocess) run(h *handler, args [][]byte, raw []byte) {
	if h == nil || r.counter == nil {
		r.direct.run(h, args, raw)
		return
	}
	r.counter.Begin(h.fullName(args), args)
	failures := r.failures
	defer func() { r.counter.End(r.carrier == carrier(r), r.failures > failures) }()
	r.direct.run(h, args, raw)
}

// carries has the engine answer PING while it may hold clients back: then PING waits or says BUSY, as Redis has it.
func (r *inprocess) carries(h *handler, raw []byte) bool {
	if h.name != "ping" || r.counter == nil || !r.counter.Holds() {
		return false
	}
	r.as(Passed)
	r.carrier.forward(raw, nil)
	return true
}

func (r *inprocess) client(sub string, args [][]byte, raw []byte) bool {
	if sub == "pause" || sub == "unpause" {
		r.carrier.forward(raw, nil)
		return true
	}
	return r.direct.client(sub, args, raw)
}

func (r *inprocess) setProtocol(p resp.Protocol) error {
	r.engine.SetProtocol(p)
	return nil
}

// sendSpan hands the replies to the commands of the span over.
func (r *inprocess) sendSpan() {
	if r.n == 0 {
		return
	}
	n := r.n
	r.n = 0
	if err := r.sync(); err != nil {
		r.replies = resp.AppendError(r.replies[:0], err.Error())
		r.quit = r.quit || n > 1 // an error takes the place of many: there is no telling them apart
	}
	if cap(r.replies) > maxIdleOutput {
		r.engine.HandedOver()
	}
	r.replies = r.out.replies(r.tag, n, r.replies)
}

func (r *inprocess) flush() { r.sendSpan() }

func (r *inprocess) endTurn() int { return r.n }

func (r *inprocess) gather(to []*proxy.Upstream) ([]*proxy.Upstream, bool) {
	return to, r.n == 0 || r.engine.Synced()
}

func (r *inprocess) forget() {
	clear(r.keys[:cap(r.keys)])
	clear(r.members[:cap(r.members)])
	r.lineScanner.Forget()
	if cap(r.line) > maxRead {
		r.line = nil
	}
}

func (r *inprocess) close() {
	r.direct.close()
	r.engine.Close()
}

// execute runs a command and appends its reply to dst.
func (r *inprocess) execute(dst []byte, args [][]byte) []byte {
	if r.turn == 0 {
		return r.engine.Run(r.ctx, dst, args)
	}
	s, p, before := r.engine, r.poller, len(dst)
	if p.slow.has(args) {
		r.yieldLead()
		began := time.Now()
		dst = s.Run(r.ctx, dst, args)
		if time.Since(began) < slowAfter/2 && len(dst)-before < slowReply/2 {
			p.slow.forget(args)
		}
		return dst
	}
	quick := s.Quick(args)
	var began time.Time
	if !quick {
		began = time.Now()
		p.guard()
	}
	dst, ran := s.TryRun(dst, args)
	if !ran {
		r.yieldLead()
		return s.Run(r.ctx, dst, args)
	}
	if !quick && time.Since(began) >= slowAfter || len(dst)-before >= slowReply {
		p.slow.add(args)
	}
	if len(dst) >= handOver {
		r.yieldLead() // it takes as long to write
	}
	return dst
}

// sync is the session's Sync.
func (r *inprocess) sync() error {
	if r.engine.Synced() {
		return r.engine.Sync()
	}
	if r.turn != 0 {
		r.yieldLead()
	}
	defer latency.Now() // the replies are ready when they are on disk
	return r.engine.Sync()
}

// runLine runs one command here, as it is on the wire, and returns its reply.
func (r *inprocess) runLine(raw []byte) []byte {
	if n, err := r.lineScanner.Next(raw); err != nil || n != len(raw) {
		return resp.AppendError(nil, "ERR redoubt: internal error")
	}
	reply := r.execute(nil, r.lineScanner.Args())
	err := r.sync()
	if cap(reply) > maxIdleOutput {
		r.engine.HandedOver()
	}
	if err != nil {
		return resp.AppendError(nil, err.Error())
	}
	return reply
}

// runScript runs a script here, loading it when it is missing.
func (r *inprocess) runScript(cmd *redoubt.Cmd) []byte {
	r.line = proxy.AppendEvalSHA(r.line[:0], cmd)
	reply := r.runLine(r.line)
	if bytes.HasPrefix(reply, noScript) {
		reply = r.runLine(proxy.AppendEval(nil, cmd))
	}
	return reply
}

var noScript = []byte("-NOSCRIPT ")
