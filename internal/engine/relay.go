package engine

import (
	"errors"
)

// An engine that follows a master passes the master's stream on to its own replicas: the same bytes at the same
// offsets, under the same ID. So each replica of a chain can go on with the stream at any other server that has that
// part of it, as with Redis. When a replica becomes the master, its stream gets another ID and remembers the former one, and
// where it ended.

var (
	errNewStream = errors.New("the stream has another ID or begins anew: the replica has to ask for it again")
	errTurned    = errors.New("this engine follows another master")
)

// turn makes the stream that of a master, m. It goes on where it is, if there is one: was is the master until now. Every
// shard is locked.
func (r *replication) turn(m, was *master) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endFeeds(errTurned)
	r.endWaits(errorReply(errRoleChanged))
	switch {
	case r.on.Load(): // a replica of this engine that is a master now begins with SELECT
		r.on.Store(false)
		r.relays = true
	case r.relays:
		m.s.db = was.s.db
	default:
		r.forget()
		return
	}
	m.offset.Store(r.end)
}

// hasStream reports whether replicas can be served: the stream of a master has to come in. mu is held.
func (e *Engine) hasStream() bool {
	m := e.master.Load()
	return m == nil || e.replication.relays && m.connected()
}

// promote makes the master's stream one of this engine. Every shard is locked.
func (r *replication) promote(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.relays {
		return
	}
	r.newID(newRunID())
	r.relays = false
	r.on.Store(true)
	r.db = -1 // replicas have selected what the master's stream has
	r.idle = e.clock.Now()
}

// rename is for a master whose stream goes on with another ID.
func (r *replication) rename(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != r.id {
		r.newID(id)
	}
}

// newID gives the stream another ID from here on. The replicas come again, and learn of it. mu is held.
func (r *replication) newID(id string) {
	r.id2, r.until2, r.id = r.id, r.end, id
	r.endFeeds(errNewStream)
}

// endFeeds ends all replicas. mu is held.
func (r *replication) endFeeds(err error) {
	for f := range r.feeds {
		f.end(err)
	}
	r.more.Broadcast()
}

// relayed returns the ID of the master's stream, "" when this engine has to begin with a copy of all keys.
func (r *replication) relayed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.relays {
		return ""
	}
	return r.id
}

// abandon forgets the master's stream, with which this engine can't go on.
func (r *replication) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endFeeds(errNewStream)
	r.relays = false
	r.forget()
}

// begin notes that this engine has all keys as they are at an offset of the master's stream.
func (r *replication) begin(e *Engine, id string, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = offset
	r.forget()
	r.id, r.relays = id, true
	r.startTick(e)
}

// pass adds a part of the master's stream to this engine's, a transaction at its end.
func (m *master) pass(raw []byte) {
	if m.s.inMulti {
		m.parted = append(m.parted, raw...)
		return
	}
	r := &m.e.replication
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.fields {
		m.fields = false
		r.noteFields()
	}
	r.write(m.parted)
	r.write(raw)
	if m.parted = m.parted[:0]; cap(m.parted) > maxIdleReply {
		m.parted = nil
	}
}
