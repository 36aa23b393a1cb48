package embedded_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/embedded"
)

// start returns a client of a new server.
func start(t *testing.T) *redis.Client {
	t.Helper()
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = s.Close()
	})
	return rdb
}

func TestKeysExpireAsTimePasses(t *testing.T) {
	rdb := start(t)
	ctx := t.Context()
	const ttl = 50 * time.Millisecond
	began := time.Now()
	if err := rdb.Set(ctx, "k", "v", ttl).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(ctx, "other", "f", "v").Err(); err != nil {
		t.Fatal(err)
	}
	for rdb.Exists(ctx, "k").Val() == 1 {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the key is still there after %v, its TTL was %v", time.Since(began), ttl)
		}
	}
	if lived := time.Since(began); lived < ttl {
		t.Errorf("the key lived for %v, its TTL was %v", lived, ttl)
	}
	if n, err := rdb.Exists(ctx, "other").Result(); n != 1 {
		t.Errorf("EXISTS of a key without TTL is %d, %v", n, err)
	}
}

func TestTimeIsTheRealClock(t *testing.T) {
	rdb := start(t)
	before := time.Now().Truncate(time.Microsecond)
	got, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if got.Before(before) || got.After(time.Now()) {
		t.Errorf("TIME is %v, want it between %v and now", got, before)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	// A client that waits is let go.
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$1\r\n0\r\n"); err != nil {
		t.Fatal(err)
	}
	pong := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(conn, pong); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open after Close, it got %q", rest)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close returned %v", err)
	}
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = conn.Close()
		t.Error("the server still accepts connections after Close")
	}
}
