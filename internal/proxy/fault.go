package proxy

import (
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Fault is why a command got no reply from its server. It matches redoubt.ErrUnknownOutcome if the
// command may have run.
type Fault struct { //nolint:errname // it takes the place of a reply, and is an error besides
	text       string
	mayHaveRun bool
}

// Error implements error.
func (f *Fault) Error() string { return f.text }

// Is reports whether the fault matches target.
func (f *Fault) Is(target error) bool { return f.mayHaveRun && target == redoubt.ErrUnknownOutcome }

// Reply is the error reply that a client gets.
func (f *Fault) Reply() []byte { return errorReply("ERR redoubt: " + f.text) }

// Lost is the fault of a command whose reply was lost with the connection.
func Lost(backend string) *Fault {
	return &Fault{"connection to back end " + backend + " lost before the reply: the command may have run", true}
}

// Unsent is the fault of a command that waited to be sent when the connection was lost.
func Unsent(backend string) *Fault {
	return &Fault{"connection to back end " + backend + " lost: the command was not sent", false}
}

// Unreachable is the fault of a command that could not be sent, mostly because there was no connection.
func Unreachable(backend string, cause error) *Fault {
	if crowded, ok := errors.AsType[permitError](cause); ok {
		return &Fault{"back end " + backend + ": " + crowded.Error() + ": the command was not sent", false}
	}
	return &Fault{"back end " + backend + " is unreachable: " + cause.Error(), false}
}

// Disagreed is the fault of a command that was redirected [MaxRedirects] times.
func Disagreed() *Fault {
	return &Fault{"the nodes of the cluster don't agree on the owner of the slot: the command was not run", false}
}

// timedOut is the fault of a command that has no reply within the time-out.
func timedOut(backend string, timeout time.Duration) *Fault {
	return &Fault{"no reply from back end " + backend + " within " + timeout.String() + ": the command may have run", true}
}

// A Failer is a [ReplyHandler] that tells faults from replies of the server. Other handlers get
// [Fault.Reply].
type Failer interface {
	ReplyHandler
	// Fail is called in place of Reply.
	Fail(tag uint64, f *Fault) (flush bool)
}

// fail hands a fault to a caller. It reports what Reply reports.
func fail(c ReplyHandler, tag uint64, f *Fault) (flush bool) {
	if c == nil {
		return false
	}
	if t, ok := c.(Failer); ok {
		return t.Fail(tag, f)
	}
	return c.Reply(tag, f.Reply())
}
