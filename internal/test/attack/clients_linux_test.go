package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// holds opens n connections, sends each what it is given until it is taken no
// more, and reads nothing. They are open together for a time.
func (r *round) holds(ctx context.Context, n int, hold time.Duration, send func(i int) [][]byte) {
	var open []*wire
	defer func() {
		for _, w := range open {
			_ = w.Close()
		}
	}()
	for i := range n {
		w := r.dial()
		if w == nil || ctx.Err() != nil {
			break
		}
		open = append(open, w)
		c := w.Conn
		if over, ok := c.(*tls.Conn); ok {
			c = over.NetConn()
		}
		if c, ok := c.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4096) // As small as the system lets it be.
		}
		for _, b := range send(i) {
			_ = w.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // It fails only if closed.
			if w.raw(b) != nil {
				break
			}
		}
	}
	pause(ctx, hold)
}

// slowReaders ask for large replies and read none.
func slowReaders(ctx context.Context, _ *rand.Rand, on *round) {
	setup := on.caller()
	_, _ = setup.do(patience, "SET", "large", strings.Repeat("x", 1<<20)) // The attack works without the value too.
	setup.close()
	on.holds(ctx, 100, 300*time.Millisecond, func(int) [][]byte {
		return [][]byte{bytesOf(200, "GET", "large")}
	})
}

func bytesOf(n int, args ...string) (b []byte) {
	for range n {
		b = resp.AppendCommand(b, args...)
	}
	return b
}

// unreadPipelines send commands without end and read no reply.
func unreadPipelines(ctx context.Context, rng *rand.Rand, on *round) {
	b := bytesOf(20000, "ECHO", strings.Repeat("x", 1+rng.IntN(200)))
	on.holds(ctx, 60, 300*time.Millisecond, func(int) [][]byte { return [][]byte{b, b} })
}

// stoppedSubscribers subscribe, or trace, or track, and read nothing, while much is
// published.
func stoppedSubscribers(ctx context.Context, rng *rand.Rand, on *round) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := on.caller()
		defer c.close()
		text := strings.Repeat("x", 1<<20)
		for range 100 {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := c.do(patience, "PUBLISH", "loud", text); err != nil {
				return
			}
		}
	}()
	on.holds(ctx, 40, 500*time.Millisecond, func(i int) [][]byte {
		if i%4 == 3 {
			return [][]byte{bytesOf(1, "PSUBSCRIBE", "lou*"), bytesOf(1, "SUBSCRIBE", "loud"), bytesOf(500+rng.IntN(1000), "PING")}
		}
		return [][]byte{bytesOf(1, "SUBSCRIBE", "loud")}
	})
	close(stop)
	<-done
}

// idleCrowd opens thousands of connections: some say nothing, some have said
// something, some wait.
func idleCrowd(ctx context.Context, rng *rand.Rand, on *round) {
	n := 1500
	if *duration != 0 {
		n = 8000
	}
	on.holds(ctx, n, 200*time.Millisecond, func(i int) [][]byte {
		switch rng.IntN(6) {
		case 0:
			return nil
		case 1:
			return [][]byte{bytesOf(1, "BLPOP", "never:"+strconv.Itoa(i), "0")}
		case 2:
			return [][]byte{bytesOf(1, "WATCH", "never"), bytesOf(1, "MULTI"), bytesOf(1, "GET", "k1")}
		case 3:
			return [][]byte{[]byte("*2\r\n$4\r\nECHO\r\n$100\r\nhalf")}
		default:
			return [][]byte{bytesOf(3, "PING")}
		}
	})
}

// openTransactions queue much and never EXEC.
func openTransactions(ctx context.Context, rng *rand.Rand, on *round) {
	big := bytesOf(4, "SET", "k1", strings.Repeat("x", 1<<20))
	small := bytesOf(4000, "GET", "k"+strconv.Itoa(rng.IntN(9)))
	on.holds(ctx, 40, 300*time.Millisecond, func(i int) [][]byte {
		b := [][]byte{bytesOf(1, "MULTI")}
		for range 10 {
			b = append(b, [][]byte{big, small}[i%2])
		}
		return b
	})
}

// halfBulks send the first 32 MB of an argument of 512 MB, and stop.
func halfBulks(ctx context.Context, rng *rand.Rand, on *round) {
	part := []byte(strings.Repeat("x", 8<<20))
	on.holds(ctx, 40, 300*time.Millisecond, func(int) [][]byte {
		return [][]byte{fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$%d\r\n", 500<<20+rng.IntN(1<<20)), part, part, part, part}
	})
}

// amplified asks in few bytes for replies of many: a hundred times one value of
// 10 MB, by several clients at once, which do read.
func amplified(ctx context.Context, rng *rand.Rand, on *round) {
	setup := on.caller()
	_, _ = setup.do(patience, "SET", "large", strings.Repeat("x", 10<<20)) // The attack works without the value too.
	setup.close()
	mget := []string{"MGET"}
	for range 40 {
		mget = append(mget, "large")
	}
	each(rng, 6, func(i int, rng *rand.Rand) {
		w := on.dial()
		if w == nil || ctx.Err() != nil {
			return
		}
		defer w.Close()
		over := context.AfterFunc(ctx, func() { _ = w.Close() })
		defer over()
		if rng.IntN(2) == 0 { // known for small replies
			for range 20 {
				_, _ = w.do("PING") // Only the victims count.
			}
		}
		if rng.IntN(2) == 0 && w.raw(bytesOf(1, mget...)) == nil {
			w.discard(2 * time.Second)
			return
		}
		b := bytesOf(1, "MULTI")
		for range 40 {
			b = append(b, bytesOf(1, "GET", "large")...)
		}
		if w.raw(append(b, bytesOf(1, "EXEC")...)) == nil {
			w.discard(2 * time.Second)
		}
	})
}

// abusesClients ends, unblocks and resets connections of its own in every state.
func abusesClients(ctx context.Context, rng *rand.Rand, on *round) {
	states := [][]string{
		{"PING"}, {"MULTI", "SET k1 1"}, {"WATCH k1"}, {"BLPOP never 0"}, {"SUBSCRIBE a b c"}, {"PSUBSCRIBE a*"}, {"CLIENT TRACKING ON BCAST"}, {"MONITOR"}, {"SELECT 3"},
		{"LOCK.ACQUIRE abused 60000 BLOCK 0"}, {"QUEUE.TAKE never 1 1000 BLOCK 0"}, {"HELLO 3"}, {"CLIENT REPLY OFF"}, {"WATCH k1", "MULTI", "MULTI", "WATCH k2", "EXEC"},
	}
	after := []string{"RESET", "DISCARD", "EXEC", "QUIT", "UNWATCH", "UNSUBSCRIBE", "HELLO 2", "CLIENT REPLY ON", "CLIENT NO-TOUCH ON", "SELECT 0", "PING", "MULTI", "RESET"}
	each(rng, 6, func(i int, rng *rand.Rand) {
		killer := on.caller()
		defer killer.close()
		for range 20 {
			w := on.dial()
			if w == nil || ctx.Err() != nil {
				return
			}
			w.waits(2 * time.Second)
			reply, err := w.do("CLIENT", "ID")
			id, known := reply.(int64)
			for _, line := range states[rng.IntN(len(states))] {
				_ = w.raw(bytesOf(1, strings.Fields(line)...)) // It may be refused.
			}
			if rng.IntN(2) == 0 {
				pause(ctx, time.Duration(rng.IntN(3))*time.Millisecond)
			}
			switch number := strconv.FormatInt(id, 10); {
			case err != nil || !known:
			case rng.IntN(3) == 0:
				_, _ = killer.do(patience, "CLIENT", "KILL", "ID", number) // Only the victims count.
			case rng.IntN(2) == 0:
				_, _ = killer.do(patience, "CLIENT", "UNBLOCK", number, "ERROR")
			default:
				_, _ = killer.do(patience, "CLIENT", "KILL", w.LocalAddr().String())
			}
			for range rng.IntN(5) {
				_ = w.raw(bytesOf(1, strings.Fields(after[rng.IntN(len(after))])...))
			}
			w.discard(time.Millisecond)
			_ = w.Close()
		}
	})
}

// tooLarge sends commands and asks for replies that the back end closes a
// connection for: the attacker's, not the one that all share. The round starts the
// back end with low limits.
func tooLarge(ctx context.Context, rng *rand.Rand, on *round) {
	piece := strings.Repeat("x", 1000<<10)
	setup := on.caller()
	defer setup.close()
	mget, del := []string{"MGET"}, []string{"DEL"}
	for i := range 12 {
		key := "{large}" + strconv.Itoa(i)
		_, _ = setup.do(patience, "SET", key, piece) // The next commands say more.
		mget, del = append(mget, key), append(del, key)
	}
	each(rng, 4, func(i int, rng *rand.Rand) {
		w := on.dial()
		if w == nil || ctx.Err() != nil {
			return
		}
		defer w.Close()
		var b []byte
		switch rng.IntN(4) {
		case 0: // beyond proto-max-bulk-len
			b = bytesOf(1, "SET", "k1", strings.Repeat("x", (1<<20)+1+rng.IntN(1<<20)))
		case 1: // beyond client-output-buffer-limit
			b = bytesOf(1+rng.IntN(20), mget...)
		case 2:
			b = bytesOf(20+rng.IntN(200), "GET", "{large}1")
		default:
			b = bytesOf(1, "EVAL", "local t={} for i=1,30 do t[i]=redis.call('GET',KEYS[1]) end return t", "1", "{large}1")
		}
		_ = w.raw(b) // A refusal comes as a reply.
		w.discard(time.Duration(20+rng.IntN(200)) * time.Millisecond)
	})
	_, _ = setup.do(patience, del...)
}

// beyondAGiB asks for a reply of more than 1 GiB and reads it.
func beyondAGiB(ctx context.Context, _ *rand.Rand, on *round) {
	setup := on.caller()
	defer setup.close()
	_, _ = setup.do(patience, "SET", "{large}", strings.Repeat("x", 110<<20)) // A refusal is an answer.
	mget := []string{"MGET"}
	for range 10 {
		mget = append(mget, "{large}")
	}
	w := on.dial()
	if w == nil {
		return
	}
	defer w.Close()
	over := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer over()
	_ = w.raw(bytesOf(1, mget...))
	_, _ = io.CopyN(io.Discard, w.in, 1200<<20) // It ends with the connection.
}

// strangers don't log in, and send commands that need a login.
func strangers(ctx context.Context, rng *rand.Rand, on *round) {
	big := []byte(strings.Repeat("x", 1<<20))
	on.holds(ctx, 60, 100*time.Millisecond, func(i int) [][]byte {
		switch i % 4 {
		case 0:
			return [][]byte{fmt.Appendf(nil, "*%d\r\n$%d\r\n", 1+rng.IntN(10), rng.IntN(512<<20)), big}
		case 1:
			return [][]byte{bytesOf(100, "AUTH", strconv.Itoa(rng.IntN(1e9)))}
		case 2:
			return [][]byte{[]byte("*1048576\r\n"), bytesOf(1, "AUTH", string(big))}
		default:
			return [][]byte{bytesOf(1, valid[rng.IntN(len(valid))]...), bytesOf(1, "SET", "stolen", "x"), big}
		}
	})
	if c := on.dial(); c != nil {
		defer c.Close()
		if _, err := c.do("AUTH", secret); err == nil {
			if v, err := c.do("GET", "stolen"); err == nil && v != nil {
				on.fault("a client without the password wrote %q", v)
			}
		}
	}
}

const secret = "s3cret-of-the-suite"
