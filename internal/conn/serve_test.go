package conn_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
	"github.com/redoubt-go/redoubt/internal/proxy"
)

// TestServeErrors: the errors that serve makes are told from each other, and from the errors of a server.
func TestServeErrors(t *testing.T) {
	said := func(f *proxy.Fault) string { return strings.Trim(string(f.Reply()), "-\r\n") }
	down := redoubt.UnavailableError{Since: time.Unix(0, 0), Last: errors.New("connection refused")}
	named := redoubt.UnavailableError{Node: "127.0.0.1:1", Since: time.Unix(0, 0), Last: errors.New("connection refused")}
	type what struct{ lost, unsent, down bool }
	for text, want := range map[string]what{
		said(proxy.Lost("r")):                          {lost: true},
		"ERR " + redoubt.UnknownOutcome(&down).Error(): {lost: true},
		said(proxy.Unsent("r")):                        {unsent: true},
		said(proxy.Unreachable("r", errors.New("x"))):  {down: true},
		"ERR " + down.Error():                          {down: true},
		"ERR " + named.Error():                         {down: true},
		said(proxy.Disagreed()):                        {},
		"ERR value is not an integer or out of range":  {},
		"ERR no reply: the command may have run":       {},
		"ERR no reply: the command was not sent":       {},
		"LOADING server r unavailable since 1970":      {},
	} {
		se := redoubt.ServerError(text)
		if got := (what{conn.ReplyLost(se), conn.NotSent(se), conn.BackendDown(se)}); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
