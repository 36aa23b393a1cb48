package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A clientInfo holds a session's facts for CLIENT LIST and CLIENT KILL.
type clientInfo struct {
	mu                    sync.Mutex
	addr, laddr           string
	name, libName, libVer string
	born                  time.Time
	namer                 func() string // see SetNamer
	kill                  func() bool   // closes the connection, false when it is closing; nil: nothing to close

	// As of the last time that the session's connection noted it.
	db, queued int
	command    string
	seen       time.Time
}

func (a *clientInfo) set(addr, laddr string, kill func() bool) {
	a.mu.Lock()
	a.addr, a.laddr, a.kill = addr, laddr, kill
	a.mu.Unlock()
}

// note is called by the session's goroutine.
func (a *clientInfo) note(s *Session) {
	now := s.e.clock.Now()
	a.mu.Lock()
	a.seen, a.db, a.queued = now, s.db, -1
	if s.inMulti {
		a.queued = len(s.queue)
	}
	if s.c.cmd != nil {
		a.command = s.c.cmd.Name
	}
	a.mu.Unlock()
}

func (a *clientInfo) closer() func() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kill
}

// list returns the clients by their numbers.
func (cl *clients) list() []*Session {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	all := make([]*Session, 0, len(cl.byID))
	for _, s := range cl.byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (cl *clients) get(id int64) *Session {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.byID[id]
}

// describe writes the session's line in CLIENT LIST, in the form of Redis.
func (s *Session) describe(b *strings.Builder) {
	now := s.e.clock.Now()
	s.e.pubsub.mu.RLock()
	sub, psub, ssub := s.subs.channels.len(), s.subs.patterns.len(), s.subs.shard.len()
	s.e.pubsub.mu.RUnlock()
	redirect := int64(-1)
	flags := ""
	add := func(on bool, letters string) {
		if on {
			flags += letters
		}
	}
	add(s.monitoring.Load(), "O")
	add(sub+psub+ssub > 0, "P")
	if t := s.tracker.Load(); t != nil {
		redirect = t.redirect
		add(true, "t")
		add(t.broken.Load(), "R")
		add(t.broadcast, "B")
	}
	add(s.wait.Load() != nil, "b")
	a := &s.client
	a.mu.Lock()
	defer a.mu.Unlock()
	add(a.queued >= 0, "x")
	add(s.stale.Load(), "d")
	if flags == "" {
		flags = "N"
	}
	command := a.command
	if command == "" {
		command = "NULL"
	}
	seconds := func(since time.Time) int64 { return max(0, int64(now.Sub(since).Seconds())) }
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d cmd=%s user=default redir=%d resp=%d lib-name=%s lib-ver=%s",
		s.id, a.addr, a.laddr, a.name, seconds(a.born), seconds(a.seen), flags, a.db, sub, psub, ssub,
		a.queued, command, redirect, s.pushProtocol(), a.libName, a.libVer)
}

// isPubSub reports whether the session has subscriptions.
func (s *Session) isPubSub() bool {
	s.e.pubsub.mu.RLock()
	defer s.e.pubsub.mu.RUnlock()
	return s.subs.count > 0
}

// validName is Redis' rule: printable ASCII without blanks.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

func (s *Session) setName(name []byte) {
	s.client.mu.Lock()
	s.client.name = string(name)
	s.client.mu.Unlock()
}
