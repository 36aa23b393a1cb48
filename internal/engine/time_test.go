package engine

import (
	"testing"
	"time"
)

// TIME counts µs, and stands still in a transaction.
func TestTimeOfTransactions(t *testing.T) {
	clock := newFakeClock()
	s := open(t, Options{Clock: clock}).Session()
	clock.advance(123456 * time.Microsecond)
	const now = "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
	want(t, s, "TIME", now)
	run(s, "MULTI")
	run(s, "TIME")
	run(s, "SET k v PX 1")
	run(s, "TIME")
	run(s, "PTTL k")
	want(t, s, "EXEC", "*4\r\n"+now+"+OK\r\n"+now+":1\r\n")
}

// A key lives for all of its time to live, and a little longer where the ms of
// its end is not over.
func TestKeysExpireWhenTheirTimeIsOver(t *testing.T) {
	clock := newFakeClock()
	s := open(t, Options{Clock: clock}).Session()
	clock.advance(900 * time.Microsecond)
	run(s, "SET k v PX 10")
	run(s, "HSETEX h PX 10 FIELDS 1 f v")
	clock.advance(10 * time.Millisecond)
	want(t, s, "PTTL k", ":0\r\n")
	want(t, s, "HGET h f", "$1\r\nv\r\n")
	clock.advance(100 * time.Microsecond)
	want(t, s, "EXISTS k h", ":0\r\n")
}
