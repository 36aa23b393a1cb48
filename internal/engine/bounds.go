package engine

import (
	"strconv"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// bounds limit the memory that a client can make the engine hold, and the size of a reply, beside
// the data itself. Beyond them a command answers an error. Redis has none of these limits; those on
// strings and on single commands are Redis' own.
type bounds struct {
	reply       int   // of one command or transaction, in bytes
	scripted    int   // reply to a command that a script runs, in bytes
	arguments   int   // of a command that a script runs, in bytes
	transaction int   // the commands of a MULTI, in bytes
	effects     int   // of one script or transaction in the log, in bytes
	restored    int64 // unpacked by one RESTORE, in bytes
	names       int   // of the subscriptions of a session, or of its WATCHed keys, in bytes
	prefixes    int   // of CLIENT TRACKING BCAST
	tracked     int   // names of keys that CLIENT TRACKING remembers, in bytes
	clientName  int   // CLIENT SETNAME and SETINFO, in bytes
	source      int   // of one script, in bytes
	loaded      int   // SCRIPT LOAD, in bytes, compiled
	evals       int   // scripts that came by EVAL; the oldest are forgotten
	evalBytes   int   // of them, in bytes, compiled
}

var defaultBounds = bounds{
	reply: 1 << 30, scripted: 64 << 20, arguments: maxString + 1<<20, transaction: 1 << 30, effects: 1 << 30, restored: rdb.Largest, names: 64 << 20, prefixes: 1024, tracked: 256 << 20, clientName: 4 << 10,
	source: 4 << 20, loaded: 64 << 20, evals: 500, evalBytes: 64 << 20,
}

// perName is the overhead of a name, or of an argument, in bytes.
const perName = 64

// perListed is what a name takes beside that in the tables of subscriptions, or of watched keys, in bytes.
const perListed = 256

// A replyTooLarge is the panic that ends a command whose reply passes a bound. It is a panic
// because only the innermost loop of a command sees the size. Its text is the error that the
// client gets instead of the reply.
type replyTooLarge string

// longReply is the length in bytes from which making a reply takes long enough to wake another
// thread.
const longReply = 128 << 10

// headerBytes is a lower bound of the header and the end of one element of a reply.
const headerBytes = 32

// room ends the command when there is no room for n more bytes of its reply. It never ends a
// command like LPOP, which has removed the data that it replies with: the client would lose the
// data.
func (c *call) room(n int) {
	if size := len(c.w) - c.from + n; size > c.roomy {
		if why := c.outgrow(size); why != "" {
			panic(replyTooLarge(why))
		}
	}
}

// outgrow is called when a reply passes roomy: at its beginning, at longReply, and from then on
// each time its size has doubled. It returns the reason when the reply may not grow to size, and ""
// otherwise.
func (c *call) outgrow(size int) string {
	most := c.mostReply()
	takes := c.cmd != nil && c.cmd.flags&flagTakes != 0
	switch {
	case size > most && !takes:
		return "ERR the reply is larger than " + strconv.Itoa(most) + " bytes: ask for less at once"
	case size <= longReply:
		c.roomy = min(longReply, most)
		return ""
	case c.roomy <= longReply:
		c.timeFromNow()
		c.e.waker.wake()
	}
	if c.running != nil && !takes {
		c.checkInterrupt()
	}
	switch {
	case c.extend(size, most):
		if c.running != nil {
			c.roomy = min(c.roomy, size+longReply) // it looks again there
		}
		return ""
	case takes:
		c.roomy = max(most, size)
		return ""
	case c.scripted:
		return "ERR the reply has no room: " + scriptsHold
	}
	return "ERR the reply has no room: " + noRoom
}

// overdone returns why a script or a transaction may not change more data, "" when it may. All its
// changes stay in memory until it ends, because the log gets them as one.
func (f *effects) overdone(e *Engine) string {
	if f.bytes <= e.bounds.effects {
		return ""
	}
	return "ERR the script or transaction has changed more than " + strconv.Itoa(e.bounds.effects) + " bytes at once: change less at once"
}

// mostReply returns how many bytes the reply may have. The limit of a script is lower: the engine
// holds the reply while it makes Lua values from it.
func (c *call) mostReply() int {
	if c.scripted {
		return min(c.e.bounds.scripted, c.e.bounds.reply)
	}
	return c.e.bounds.reply
}

// tooMuch returns why a script may not run a command with args, "" when it may.
func (b *bounds) tooMuch(args [][]byte) string {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	if n <= b.arguments {
		return ""
	}
	return "ERR the arguments of a command in a script may have " + strconv.Itoa(b.arguments) + " bytes together"
}

// nameFits answers a name that is too long.
func (c *call) nameFits(name []byte) bool {
	if len(name) > c.e.bounds.clientName {
		c.err("ERR a name may have " + strconv.Itoa(c.e.bounds.clientName) + " bytes")
		return false
	}
	return true
}
