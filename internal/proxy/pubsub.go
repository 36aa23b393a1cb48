package proxy

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// Subscription is what a command does to subscriptions.
type Subscription uint8

const (
	// NoSubscription: nothing.
	NoSubscription Subscription = iota
	// Channels: SUBSCRIBE and UNSUBSCRIBE.
	Channels
	// Patterns: PSUBSCRIBE and PUNSUBSCRIBE.
	Patterns
	// Shards: SSUBSCRIBE and SUNSUBSCRIBE.
	Shards

	families
)

// verb is what an array or a push is in pub/sub.
type verb uint8

const (
	notPubSub verb = iota
	confirmation
	message
)

var verbs = []struct {
	name   []byte
	family Subscription
	verb   verb
}{
	{[]byte("message"), Channels, message},
	{[]byte("pmessage"), Patterns, message},
	{[]byte("smessage"), Shards, message},
	{[]byte("subscribe"), Channels, confirmation},
	{[]byte("unsubscribe"), Channels, confirmation},
	{[]byte("psubscribe"), Patterns, confirmation},
	{[]byte("punsubscribe"), Patterns, confirmation},
	{[]byte("ssubscribe"), Shards, confirmation},
	{[]byte("sunsubscribe"), Shards, confirmation},
}

// pubsub recognizes the arrays and pushes of pub/sub. For a confirmation, rest
// is how many subscriptions the client has after it: of channels and patterns
// together, or of shards.
func pubsub(raw []byte) (family Subscription, v verb, rest int64) {
	if len(raw) < 6 || raw[2] != '\r' || (raw[1] != '3' && raw[1] != '4') || raw[4] != '$' {
		return 0, notPubSub, 0
	}
	nl := bytes.IndexByte(raw[5:], '\n')
	if nl < 0 {
		return 0, notPubSub, 0
	}
	word := raw[5+nl+1:]
	for _, k := range verbs {
		if !bytes.HasPrefix(word, k.name) || !bytes.HasPrefix(word[len(k.name):], []byte("\r\n")) {
			continue
		}
		if k.verb == message {
			return k.family, message, 0
		}
		// The last element, an integer, is the count.
		colon := bytes.LastIndexByte(raw, ':')
		if colon < 0 || raw[1] != '3' {
			return 0, notPubSub, 0
		}
		n, ok := resp.ParseInt(raw[colon+1 : len(raw)-2])
		if !ok || n < 0 {
			return 0, notPubSub, 0
		}
		return k.family, confirmation, n
	}
	return 0, notPubSub, 0
}

// confirmed takes a confirmation. In RESP2, where it looks like any array, it
// is one only if the head of the queue waits for it, or if there are
// subscriptions that the server may end by itself.
func (d *Dedicated) confirmed(family Subscription, rest int64, raw []byte) bool {
	e := d.conn.head()
	expected := e != nil && e.expect.Subscription == family
	if !expected && raw[0] != '>' && d.counts == [families]int64{} {
		return false
	}
	if expected && d.confirming == 0 {
		d.confirming = e.expect.Channels
		if d.confirming == 0 { // all of them, and one confirmation for none
			d.confirming = max(1, int(d.counts[family]))
		}
	}
	switch family {
	case Channels:
		d.counts[Channels] = rest - d.counts[Patterns]
	case Patterns:
		d.counts[Patterns] = rest - d.counts[Channels]
	default:
		d.counts[family] = rest
	}
	for f := range d.counts {
		d.shown[f].Store(d.counts[f])
	}
	d.listening.Store(d.monitor || d.counts != [families]int64{})
	d.push(raw)
	if !expected {
		return true
	}
	d.confirming--
	if d.confirming == 0 {
		_ = d.conn.reply(nil) // there is a head
	}
	return true
}

func (d *Dedicated) push(raw []byte) {
	if d.listener.Push(raw) {
		d.conn.flush = append(d.conn.flush, d.listener)
	}
}

// isMonitorLine recognizes +1700000000.123456 [0 127.0.0.1:5] "get" "k".
func isMonitorLine(raw []byte) bool {
	if raw[0] != '+' {
		return false
	}
	dot := bytes.IndexByte(raw, '.')
	if dot < 2 || len(raw) < dot+9 || raw[dot+7] != ' ' || raw[dot+8] != '[' {
		return false
	}
	for _, c := range raw[1:dot] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
