package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// asks sends lines to a pool of memcached, each on its own connection, which
// are open together, and reads what comes for a time.
func (r *round) asks(ctx context.Context, lines []string, hold time.Duration) {
	var open []*wire
	defer func() {
		for _, w := range open {
			_ = w.Close()
		}
	}()
	for _, l := range lines {
		w := r.dial()
		if w == nil || ctx.Err() != nil {
			return
		}
		open = append(open, w)
		_ = w.raw([]byte(l)) // It may be refused before its end.
	}
	pause(ctx, hold)
}

// announcedValues announces values and sends one byte of each.
func announcedValues(ctx context.Context, rng *rand.Rand, on *round) {
	var lines []string
	for i := range 60 {
		verb := []string{"set", "add", "replace", "append", "prepend"}[rng.IntN(5)]
		size := []string{"536870000", "536870911", "1048576", "2147483647", "4294967295", "9223372036854775807", "-1"}[rng.IntN(7)]
		lines = append(lines, fmt.Sprintf("%s k%d 0 0 %s\r\nx", verb, i, size))
	}
	on.asks(ctx, lines, 200*time.Millisecond)
}

// longLines sends lines that a memcached server closes the connection on, or takes
// for something else.
func longLines(ctx context.Context, rng *rand.Rand, on *round) {
	n := 2100 + rng.IntN(30000)
	blanks, tail := strings.Repeat(" ", n), strings.Repeat("x", n)
	lines := []string{
		"version " + tail + "\r\n", "version" + blanks + "\r\n", "stats" + blanks + "\r\n", "stats " + tail + "\r\n", blanks + "set k 0 0 1\r\nx\r\n",
		"gat 0" + blanks + "k\r\n", "gat" + blanks + "0 k\r\n", "gats 0 " + tail + "\r\n", "get" + blanks + "k\r\n", "get k" + blanks + "\r\n", "get " + tail + "\r\n",
		"gets" + strings.Repeat(" k", n/2) + "\r\n", "get " + strings.Repeat("k", 251) + "\r\n", "set " + strings.Repeat("k", 251) + " 0 0 1\r\nx\r\n",
		"set k" + blanks + "0 0 1\r\nx\r\n", "set k 0 0 1" + blanks + "\r\nx\r\n", "incr k" + blanks + "1\r\n", "incr k " + strings.Repeat("0", n) + "1\r\n",
		"delete k" + blanks + "\r\n", "touch k" + blanks + "1\r\n", "verbosity" + blanks + "1\r\n", "flush_all" + blanks + "999999\r\n", blanks + "\r\n", tail, tail + "\r\n",
		"cas k 0 0 1" + blanks + "1\r\nx\r\n", "set k 0 0 1 noreply" + blanks + "\r\nx\r\n", "quit" + blanks + "\r\n", "mn" + blanks + "\r\n", "mg k" + blanks + "v\r\n",
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	on.asks(ctx, lines, 50*time.Millisecond)
}

// posts sends what a browser can be made to send: a request of HTTP whose body is
// commands. None of them is run.
func posts(ctx context.Context, rng *rand.Rand, on *round) {
	key := fmt.Sprintf("smuggled%d", rng.Uint32())
	body := "set " + key + " 0 0 1\r\nx\r\n"
	var lines []string
	for _, head := range []string{
		"POST / HTTP/1.1\r\n", "GET /get%20k HTTP/1.0\r\n", "PUT /x?y HTTP/2\r\n", "OPTIONS * HTTP/1.1\r\n", "POST  /  HTTP/1.1 \r\n",
	} {
		lines = append(lines, fmt.Sprintf("%sHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body))
	}
	on.asks(ctx, lines, 20*time.Millisecond)
	if ctx.Err() != nil {
		return
	}
	w := on.dial()
	if w == nil {
		return
	}
	defer w.Close()
	_ = w.raw([]byte("get " + key + "\r\n")) // The answer tells.
	line, err := w.in.ReadString('\n')
	if err == nil && line != "END\r\n" {
		on.fault("the body of a POST was run: get of its key answers %q", line)
	}
}

// nearlyValid sends random lines that are valid but for something.
func nearlyValid(ctx context.Context, rng *rand.Rand, on *round) {
	tokens := strings.Fields("get gets gat gats set add replace append prepend cas delete incr decr touch stats version verbosity quit mg ms md ma mn me lru slabs shutdown " +
		"noreply k1 k2 k3 0 1 2 -1 100 1048577 2147483648 4294967296 18446744073709551615 99999999999999999999 x \x00 \x7f \xff items proxy hotkeys reset")
	each(rng, 6, func(_ int, rng *rand.Rand) {
		for range 40 {
			w := on.dial()
			if w == nil || ctx.Err() != nil {
				return
			}
			var b strings.Builder
			for range 1 + rng.IntN(20) {
				if rng.IntN(3) == 0 {
					n := rng.IntN(2000)
					fmt.Fprintf(&b, "set k%d %d 0 %d\r\n%s\r\n", rng.IntN(9), rng.IntN(70000), n, strings.Repeat("v", max(0, n-1+rng.IntN(3))))
				}
				for range 1 + rng.IntN(7) {
					b.WriteString(tokens[rng.IntN(len(tokens))] + strings.Repeat(" ", 1+rng.IntN(2)*rng.IntN(3)))
				}
				b.WriteString([]string{"\r\n", "\n", "\r", "\r\r\n", "\x00\r\n"}[max(0, rng.IntN(10)-5)])
			}
			raw := []byte(b.String())
			for range rng.IntN(3) {
				raw[rng.IntN(len(raw))] ^= 1 << rng.IntN(8)
			}
			if rng.IntN(20) == 0 {
				raw[0] = 0x80 // The binary protocol.
			}
			if strings.Contains(string(raw), "flush_all") {
				raw = []byte("version\r\n") // A flip of bits made what empties the servers.
			}
			_ = w.raw(raw) // It may be refused before its end.
			if rng.IntN(2) == 0 {
				w.discard(time.Duration(1+rng.IntN(5)) * time.Millisecond)
			}
			_ = w.Close()
		}
	})
}

// readsNothing asks for a large value again and again and reads none of it.
func readsNothing(ctx context.Context, rng *rand.Rand, on *round) {
	setup := on.dial()
	if setup == nil {
		return
	}
	_ = setup.raw([]byte("set large 0 0 500000\r\n" + strings.Repeat("x", 500000) + "\r\n")) // The next line waits for it.
	_, _ = setup.in.ReadString('\n')
	_ = setup.Close()
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = strings.Repeat("get large large large\r\n", 50+rng.IntN(200))
	}
	on.asks(ctx, lines, 300*time.Millisecond)
}
