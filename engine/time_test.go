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
