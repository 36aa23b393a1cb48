package server

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// An aclLog keeps what users were refused, and failed logins, for ACL LOG. Any goroutine may use it.
type aclLog struct {
	mu      sync.Mutex
	entries []aclEntry // the latest first
}

// An aclEntry is what happened once, or several times within a minute.
type aclEntry struct {
	count        int64
	reason       acl.Reason
	context      string // toplevel, multi or lua
	object, user string
	client       string // as CLIENT LIST shows it
	at           time.Time
}

// Redis has the same limits.
const (
	aclLogLen   = 128 // without acllog-max-len
	aclLogScan  = 10  // the latest ones, among which an entry looks for its like
	aclLogGroup = time.Minute
)

// add adds an entry, or counts it in an earlier one. It keeps the latest entries, most of them.
func (l *aclLog) add(e aclEntry, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	like := func(o aclEntry) bool {
		return o.reason == e.reason && o.context == e.context && o.object == e.object && o.user == e.user && e.at.Sub(o.at) <= aclLogGroup
	}
	if i := slices.IndexFunc(l.entries[:min(aclLogScan, len(l.entries))], like); i >= 0 {
		e.count = l.entries[i].count
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	e.count++
	l.entries = slices.Insert(l.entries, 0, e)
	l.entries = l.entries[:min(most, len(l.entries))]
}

func (l *aclLog) latest(n int) []aclEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[:min(n, len(l.entries))])
}

func (l *aclLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// maxObject is how many bytes of an object an entry keeps.
const maxObject = 1 << 10

// noteDenial adds what a user was refused to ACL LOG, and in is the input of c if c asks.
func noteDenial(c *session, reason acl.Reason, context, object, user string, in input) {
	if !c.srv.answersACL() {
		return
	}
	most := aclLogLen
	if c.counter != nil {
		most = c.counter.ACLLogLen()
	}
	c.srv.aclLog.add(aclEntry{
		reason: reason, context: context, object: object[:min(maxObject, len(object))], user: user[:min(maxObject, len(user))],
		client: describe(c, in, nil), at: time.Now(),
	}, most)
}

// aclLogCommand answers ACL LOG [count | RESET].
func aclLogCommand(c *session, args [][]byte) []byte {
	n := int64(10)
	if len(args) > 0 {
		if bytes.EqualFold(args[0], []byte("RESET")) {
			c.srv.aclLog.reset()
			return okRaw
		}
		var ok bool
		if n, ok = resp.ParseInt(args[0]); !ok {
			return resp.AppendError(nil, "ERR value is not an integer or out of range")
		}
	}
	entries := c.srv.aclLog.latest(int(min(max(n, 0), math.MaxInt32)))
	now := time.Now()
	dst := resp.AppendArray(nil, len(entries))
	for _, e := range entries {
		dst = resp.AppendMap(dst, c.protocol, 7)
		dst = resp.AppendInt(resp.AppendBulk(dst, "count"), e.count)
		for _, field := range [][2]string{{"reason", e.reason.String()}, {"context", e.context}, {"object", e.object}, {"username", e.user}} {
			dst = resp.AppendBulk(resp.AppendBulk(dst, field[0]), field[1])
		}
		dst = resp.AppendDouble(resp.AppendBulk(dst, "age-seconds"), c.protocol, float64(now.Sub(e.at).Milliseconds())/1000)
		dst = resp.AppendBulk(resp.AppendBulk(dst, "client-info"), e.client)
	}
	return dst
}
