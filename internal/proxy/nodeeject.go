package proxy

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
)

// failed is called whenever the server has failed.
func (n *Node) failed() {
	p := n.pool
	if p.cluster != nil {
		p.cluster.check()
	}
	if !p.opts.Eject {
		return
	}
	if n.eject() {
		p.tell(outage.Change{Server: n.backend.Name(), Kind: outage.Ejected})
	}
}

// eject counts a failure. It reports whether the server is taken out of the ring for it.
func (n *Node) eject() bool {
	p := n.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n.failures++
	if n.failures < p.opts.FailureLimit || n.ejected || p.closed {
		return false
	}
	n.ejectedAt = time.Now()
	n.ejected, n.until = true, n.ejectedAt.Add(p.opts.RetryTimeout)
	n.ejections.Add(1)
	n.timer = time.AfterFunc(p.opts.RetryTimeout, func() {
		if n.Up() {
			n.answered()
		}
	})
	p.remake()
	return true
}

// answered is called whenever the server answers again.
func (n *Node) answered() {
	p := n.pool
	if !p.opts.Eject {
		return
	}
	p.mu.Lock()
	n.failures = 0
	restored, away := n.ejected && !p.closed && !time.Now().Before(n.until), time.Since(n.ejectedAt)
	if restored {
		n.ejected = false
		p.remake()
	}
	p.mu.Unlock()
	if restored {
		p.tell(outage.Change{Server: n.backend.Name(), Kind: outage.Restored, Away: away})
	}
}

// Up reports whether there is a shared connection to the server, and replies come in
// time, and from a replica that it has its server's data.
func (n *Node) Up() bool {
	if n.role.stale.Load() {
		return false
	}
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil && u.up() {
			return true
		}
	}
	return false
}

// Ejected reports whether the server is out of the ring now, and how many times it
// has been taken out.
func (n *Node) Ejected() (now bool, times uint64) {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	return n.ejected, n.ejections.Load()
}

// EjectedAt returns when the server was last taken out of the ring, or the zero time.
func (n *Node) EjectedAt() time.Time {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	return n.ejectedAt
}
