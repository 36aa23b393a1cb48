package transfer

import (
	"context"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestSwitchUndoes: when the target is lost in the middle of a switch, the source takes writes again.
func TestSwitchUndoes(t *testing.T) {
	source, target := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	open := func(r *redistest.Server) (*Server, error) {
		return NewServer(context.Background(), &proxy.Redis{Addr: r.Addr()}, AnyDatabase)
	}
	from, err := open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	link, err := NewLink(from, to, source.Addr(), "", "", false, func(_ context.Context, isSource bool) (*Server, error) {
		if isSource {
			return open(source)
		}
		return open(target)
	})
	if err != nil {
		t.Fatal(err)
	}
	source.CLI("DEBUG", "POPULATE", "50000") // their comparison takes longer than to see that it has begun
	if err := link.Begin(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := link.Await(t.Context(), func(LinkState) {}); err != nil {
		t.Fatal(err)
	}
	// The target does not answer from the moment on at which the source refuses writes.
	ended := make(chan error, 1)
	go func() {
		_, _, err := link.Switch(t.Context(), 50_000)
		ended <- err
	}()
	refuses := func() bool { return strings.HasSuffix(source.CLI("CONFIG", "GET", minReplicas), neverEnough) }
	lost := false
	for !lost {
		select {
		case err = <-ended:
			t.Fatalf("the switch was too quick, or failed: %v", err)
		default:
			if lost = refuses(); lost {
				target.Kill()
			}
		}
	}
	if err := <-ended; err == nil {
		t.Error("the target was lost, and the switch has not failed")
	}
	if got := source.CLI("SET", "key", "other"); got != "OK" {
		t.Errorf("the source refuses writes: %s", got)
	}
	ctx := t.Context()

	// Left by a switch that was killed: the next one knows that nothing was meant by it.
	source.CLI("CONFIG", "SET", minReplicas, neverEnough)
	if err := link.refuseWrites(ctx); err != nil {
		t.Fatal(err)
	}
	if got := source.CLI("SET", "key", "other"); !strings.HasPrefix(got, "NOREPLICAS") {
		t.Errorf("the source takes writes: %s", got)
	}
	if err := link.allowWrites(ctx); err != nil {
		t.Fatal(err)
	}
	if got := source.CLI("SET", "key", "other"); got != "OK" {
		t.Errorf("the source refuses writes: %s", got)
	}
}
