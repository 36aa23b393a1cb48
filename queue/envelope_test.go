package queue_test

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/lua"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// Else the engine would lock more than a queue for them.
func TestScriptsKeepToTheirKeys(t *testing.T) {
	for _, s := range wire.Scripts() {
		p, err := lua.Compile(s.Name(), s.Source())
		must(t, err)
		calls, ok := p.Calls()
		if !ok {
			t.Errorf("%s: its calls can't be told", s.Name())
		}
		for _, c := range calls {
			if c.Args[0].Text != "TIME" && !c.Args[1].Key {
				t.Errorf("%s: the key of %s can't be told", s.Name(), c.Args[0].Text)
			}
		}
	}
}

func TestBadMessages(t *testing.T) {
	var keys wire.Keys
	ok := wire.Message{ID: "a", Attempts: 1}
	for want, edit := range map[string]func(*wire.Message){
		"queue: id has 0 bytes; want 1 to 255":                                      func(m *wire.Message) { m.ID = "" },
		"queue: delay is -1ns; want 0s to 87600h0m0s":                               func(m *wire.Message) { m.Delay = -1 },
		"queue: both delay and at are set; want one":                                func(m *wire.Message) { m.Delay, m.At = 1, time.Now() },
		"queue: attempts is 0; want 1 to 65535, or Unlimited":                       func(m *wire.Message) { m.Attempts = 0 },
		"queue: lane is 3; want -1 to 2":                                            func(m *wire.Message) { m.Lane = 3 },
		"queue: unique key is empty but has a time; set both or neither":            func(m *wire.Message) { m.UniqueFor = 1 },
		"queue: time of the unique key is 0s; want 1ms to 87600h0m0s":               func(m *wire.Message) { m.Unique = "k" },
		"queue: group has 256 bytes; want at most 255":                              func(m *wire.Message) { m.Group = string(make([]byte, 256)) },
		"queue: at is 1969-01-01 00:00:00 +0000 UTC; want a year from 1970 to 2200": func(m *wire.Message) { m.At = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		m := ok
		edit(&m)
		if _, err := wire.PutCmd(keys, []wire.Message{m}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := wire.PutCmd(keys, []wire.Message{ok}); err != nil {
		t.Error(err)
	}
	if _, err := wire.PutCmd(keys, make([]wire.Message, queue.MaxBatch+1)); err == nil {
		t.Error("too many are fine")
	}
}
