package engine

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// TestWaitsAreCounted: a command that waits counts with its arguments until it has its reply or is given up. Without room
// it is refused.
func TestWaitsAreCounted(t *testing.T) {
	e := open(t, Options{})
	l := &ledger{limit: 1 << 20}
	s := e.Session()
	s.SetAccount(l.account)
	key := strings.Repeat("k", 300_000)
	line := [][]byte{[]byte("BLPOP"), []byte(key), []byte("0")}
	for _, end := range []string{"served", "given up"} {
		_, w := s.Do(nil, line)
		if w == nil {
			t.Fatal("it does not wait")
		}
		if now, _ := l.held(); now < 600_000 { // the key is there twice
			t.Errorf("%d bytes are counted of a key of 300,000", now)
		}
		out, second := e.sessionOf(l).Do(nil, line)
		if second != nil || !strings.HasPrefix(string(out), "-ERR the command has no room to wait: "+noRoom) {
			t.Errorf("a second one without room: %.100q", out)
		}
		if end == "served" {
			run(e.Session(), "RPUSH "+key+" v")
			<-w.Done()
		} else {
			w.Cancel()
		}
		if now, _ := l.held(); now != 0 {
			t.Errorf("%d bytes are counted of a wait that was %s", now, end)
		}
	}
}

// sessionOf returns a session whose account is l.
func (e *Engine) sessionOf(l *ledger) *Session {
	s := e.Session()
	s.SetAccount(l.account)
	return s
}

// TestNamesAreCounted: the names of subscriptions and of watched keys count until they are given up. Without room the next
// one is refused, and the earlier ones stay.
func TestNamesAreCounted(t *testing.T) {
	e := open(t, Options{})
	name := strings.Repeat("n", 100_000)
	for _, c := range []struct{ begin, end, refusal string }{
		{"SUBSCRIBE", "UNSUBSCRIBE", "the subscription has no room"},
		{"PSUBSCRIBE", "PUNSUBSCRIBE", "the subscription has no room"},
		{"SSUBSCRIBE", "SUNSUBSCRIBE", "the subscription has no room"},
		{"SUBSCRIBE", "RESET", "the subscription has no room"},
		{"WATCH", "UNWATCH", "the watched keys have no room"},
		{"WATCH", "RESET", "the watched keys have no room"},
		{"WATCH", "MULTI EXEC", "the watched keys have no room"},
	} {
		l := &ledger{limit: 250_000}
		s := e.sessionOf(l)
		s.SetProtocol(resp.RESP3)
		for _, more := range []string{"1", "2"} {
			if got := run(s, c.begin+" "+name+more); got[0] == '-' {
				t.Errorf("%s: %.100q", c.begin, got)
			}
		}
		if now, _ := l.held(); now < 200_000 {
			t.Errorf("%s: %d bytes are counted of two names of 100,000", c.begin, now)
		}
		wantError(t, s, c.begin+" "+name+"3", c.refusal+": "+noRoom)
		for end := range strings.FieldsSeq(c.end) {
			run(s, end)
		}
		s.HandedOver() // the reply has all names
		if now, _ := l.held(); now != 0 {
			t.Errorf("%s, %s: %d bytes are counted", c.begin, c.end, now)
		}
		if got := run(s, c.begin+" "+name+"3"); got[0] == '-' {
			t.Errorf("%s, %s: the next one: %.100q", c.begin, c.end, got)
		}
	}
}
