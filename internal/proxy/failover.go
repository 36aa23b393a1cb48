package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
)

// A Failover is a [Backend] whose server may come to be another, like a master that
// Sentinels watch. A connection counts once its server has said by ROLE that it is a
// master (a replica, for one of [PoolServer].Replicas).
type Failover interface {
	Backend
	// Until returns a context for the connections opened from now on. When it ends, they must
	// be closed. Its cause is the reason.
	Until() context.Context
	// Doubt is called when a server has answered as no master does. It must not block.
	Doubt()
}

// until is [Failover].Until; a context that never ends for what doesn't move.
func (o config) until() context.Context {
	if m, ok := o.Backend.(Failover); ok {
		return m.Until()
	}
	return context.Background()
}

// doubt returns [Failover].Doubt; nil for what doesn't move.
func (o config) doubt() func() {
	if m, ok := o.Backend.(Failover); ok && !o.replica {
		return m.Doubt
	}
	return nil
}

// role says what the answer to ROLE has to be, or nil if anything will do.
func (o config) role() func(answer any) error {
	switch _, moving := o.Backend.(Failover); {
	case o.replica:
		return synchronised
	case moving:
		return master
	}
	return nil
}

// master returns an error unless the answer to ROLE is that of a master.
func master(role any) error {
	r, ok := role.([]any)
	if !ok || len(r) == 0 {
		return errors.New("it does not say whether it is a master")
	}
	if is := fmt.Sprint(r[0]); is != "master" {
		return fmt.Errorf("it is no master: its role is %s", is)
	}
	return nil
}

var readOnly = []byte("-READONLY ")

// notMaster reports whether a reply, which may be empty, is that of a replica which was
// sent a write.
func notMaster(raw []byte) bool { return bytes.HasPrefix(raw, readOnly) }

// openUntil is open, given up when until ends.
func (o config) openUntil(ctx, until context.Context, more ...[]string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(until, func() { cancel(context.Cause(until)) })
	defer stop()
	conn, err := o.open(ctx, more...)
	if err != nil {
		if until.Err() != nil {
			err = context.Cause(until)
		}
		if doubt := o.doubt(); doubt != nil {
			doubt()
		}
	}
	return conn, err
}
