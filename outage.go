package redoubt

import (
	"context"
	"errors"
	"sync"
	"time"
)

// An UnavailableError says that a server is down, as far as this process can tell. It matches
// [ErrUnavailable]; find it with errors.As.
type UnavailableError struct {
	// Since is when the server was last known to be up or, if it never was, when it was first asked. It is
	// exact to a fifth of [Options].DownAfter.
	Since time.Time
	// Node names the primary of a cluster as host:port; it is empty elsewhere.
	Node string
	// Last is the error of the latest attempt, such as a refused connection; nil when there was no answer
	// at all.
	Last error
}

func (e *UnavailableError) Error() string {
	text := "redoubt: server"
	if e.Node != "" {
		text += " " + e.Node
	}
	text += " unavailable since " + e.Since.UTC().Format("2006-01-02T15:04:05.000Z")
	if e.Last == nil {
		return text + ": no answer"
	}
	return text + ": " + inner(e.Last)
}

// Is reports true for [ErrUnavailable].
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns Last.
func (e *UnavailableError) Unwrap() error { return e.Last }

// An outage is a time in which a node is down.
type outage struct {
	mu      sync.Mutex
	err     *UnavailableError // never changed in place
	probing bool              // the node is asked again and again
	known   chan struct{}     // closed once it was asked
	wanted  time.Time         // by the latest call
}

// allow returns the error for a call while the node is down.
func (h *health) allow(ctx context.Context) error {
	o := h.outage.Load()
	if o == nil {
		return nil
	}
	o.mu.Lock()
	o.wanted = time.Now()
	if !o.probing { // for long, so nothing is known: calls wait for the next answer, for DownAfter
		o.probing, o.known = true, make(chan struct{})
		h.client.Go(func() { h.probe(o) })
	}
	known := o.known
	o.mu.Unlock()
	select {
	case <-known:
		return h.stillDown(o)
	default:
	}
	patience := time.NewTimer(stepsPerDown * h.step)
	defer patience.Stop()
	select {
	case <-known:
	case <-patience.C:
		o.tell() // no answer for so long is one
	case <-ctx.Done():
		return ctx.Err()
	}
	return h.stillDown(o)
}

// stillDown returns the error for a call in the outage o, unless it is over.
func (h *health) stillDown(o *outage) error {
	if h.outage.Load() != o {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// probe sends PINGs in an outage, until the server answers, no call has come for a while, or the client is
// closed.
func (h *health) probe(o *outage) {
	for h.outage.Load() == o {
		ctx, cancel := context.WithTimeout(h.client.open, probePatience*h.step)
		err := h.ping(ctx)
		cancel()
		if err == nil {
			h.heard()
			break
		}
		if !o.goOn(err, h.client.open.Err() == nil, probedSteps*h.step) {
			return
		}
		select {
		case <-time.After(h.step):
		case <-h.client.open.Done():
		}
	}
	o.tell()
}

// tell releases the calls that wait for the result of a PING.
func (o *outage) tell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told()
}

// told is tell with o.mu held.
func (o *outage) told() {
	select {
	case <-o.known:
	default:
		close(o.known)
	}
}

// goOn notes the result of a PING, and reports whether to send another.
func (o *outage) goOn(err error, open bool, patience time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met(err)
	o.probing = open && time.Since(o.wanted) < patience
	o.told()
	return o.probing
}

// met keeps the error of an attempt. o.mu is held.
func (o *outage) met(err error) {
	if last := withoutContext(err); last != nil {
		e := *o.err
		e.Last = last
		o.err = &e
	}
}

// explain adds the outage to the error of a call that it has ended.
func (h *health) explain(w *watched, err error) error {
	if err == nil || answered(Reply{Err: err}) {
		return err
	}
	var down *UnavailableError
	if !errors.As(context.Cause(w.ctx), &down) {
		return err
	}
	if o := h.outage.Load(); o != nil {
		o.mu.Lock()
		o.met(err)
		down = o.err
		o.mu.Unlock()
	}
	if errors.Is(err, ErrUnknownOutcome) {
		return UnknownOutcome(down)
	}
	return down
}

// withoutContext returns err without the facts that a context has ended and that the outcome is unknown;
// nil if nothing else is left.
func withoutContext(err error) error {
	switch e := err.(type) { //nolint:errorlint // it takes the error apart
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if rest := withoutContext(part); rest != nil {
				return rest
			}
		}
		return nil
	default:
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
			return nil
		}
		return err
	}
}

type patientKey struct{}

// Patient returns ctx for calls that the Client tries until ctx ends, also while the server is known to be
// down: see [Options].DownAfter. Use it for state that would be left behind on the server, such as the
// lock of a caller that has gone. Give ctx a deadline.
func Patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

func patient(ctx context.Context) bool { return ctx.Value(patientKey{}) != nil }
