package server_test

import (
	"net"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestWaitForReplicas: WAIT counts the replicas that have the client's writes, which the server sends over a connection
// that others use too. A back end that doesn't let the server find that out makes WAIT fail.
func TestWaitForReplicas(t *testing.T) {
	primary := redistest.Start(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port)
	await.Soon(t, "the replica is there", func() bool { return primary.CLI("WAIT", "1", "100") == "1" })
	_, addr := start(t, primary.URL())
	c := dial(t, addr)
	c.do("SET", "k", "1")
	if got := c.do("WAIT", "1", "10000"); got != ":1\r\n" {
		t.Errorf("WAIT for a replica: %q", got)
	}
	replica.Pause()
	defer replica.Resume()
	c.do("SET", "k", "2")
	if got := c.do("WAIT", "1", "50"); got != ":0\r\n" {
		t.Errorf("WAIT for a replica that is stopped: %q", got)
	}
	primary.CLI("ACL", "SETUSER", "mute", "on", ">s3cret", "~*", "+@all", "resetchannels")
	_, addr = start(t, strings.Replace(primary.URL(), "://", "://mute:s3cret@", 1))
	if got := dial(t, addr).do("WAIT", "1", "50"); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("WAIT for a user who may not publish: %q", got)
	}
}
