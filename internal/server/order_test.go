package server_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestLongPipeline(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		const n = 10_000
		var all []byte
		for i := range n {
			all = resp.AppendCommand(all, "SET", b.Prefix+strconv.Itoa(i%100), strconv.Itoa(i))
			all = resp.AppendCommand(all, "GET", b.Prefix+strconv.Itoa(i%100))
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = w.conn.Write(all)
		}()
		for i := range n {
			w.expect("+OK\r\n")
			w.expect(bulk(strconv.Itoa(i)))
		}
		<-sent
	})
}

// TestBlankLines: a blank line between commands that leave together is no command, on the shared
// connection and on one of the client's own.
func TestBlankLines(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		key := b.Prefix + "blank"
		for range 2 {
			var all []byte
			for i := range 5 {
				all = append(resp.AppendCommand(all, "SET", key, strconv.Itoa(i)), "\r\n\r\n"...)
				all = resp.AppendCommand(all, "GET", key)
			}
			w.write(string(all))
			for i := range 5 {
				w.expect("+OK\r\n")
				w.expect(bulk(strconv.Itoa(i)))
			}
			w.want("+OK\r\n", "WATCH "+key)
		}
	})
}

// TestBlankLinesAreNotSent: a blank line between commands reaches no back end. A pool would count it as a
// command when it looks for a slow or a redirected one.
func TestBlankLinesAreNotSent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var blanks atomic.Int64
	serve := func(conn net.Conn) {
		defer conn.Close()
		var scanner resp.CommandScanner
		var buf []byte
		chunk := make([]byte, 64<<10)
		for {
			n, err := conn.Read(chunk)
			if err != nil {
				return
			}
			buf = append(buf, chunk[:n]...)
			for {
				end, err := scanner.Next(buf)
				if end == 0 || err != nil {
					break
				}
				if len(scanner.Args()) == 0 {
					blanks.Add(1)
				} else {
					_, _ = conn.Write([]byte("+OK\r\n"))
				}
				buf = buf[end:]
			}
		}
	}
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go serve(conn)
		}
	}()
	_, addr := start(t, "redis://"+ln.Addr().String())
	w := dial(t, addr)
	set := string(resp.AppendCommand(nil, "SET", "k", "v"))
	for range 2 {
		w.write(set + "\r\n" + set + "\r\n\r\n" + set)
		for range 3 {
			w.expect("+OK\r\n")
		}
		w.want("+OK\r\n", "WATCH k") // from here on, its own connection
	}
	if n := blanks.Load(); n != 0 {
		t.Errorf("%d blank lines were sent, want none", n)
	}
}

// TestMixedOrder sends random mixtures of all five ways a command can take, in
// one write, and checks each reply in its place.
//
// Promise: Replies come in the order of the commands, each exactly once.
func TestMixedOrder(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		var wg sync.WaitGroup
		for client := range 4 {
			w := dial(t, addr)
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(client)))
				key := b.Prefix + "k" + strconv.Itoa(client)
				for round := range 30 {
					var all []byte
					var want []string
					add := func(reply string, args ...string) {
						all = resp.AppendCommand(all, args...)
						want = append(want, reply)
					}
					for i := range 40 {
						text := fmt.Sprint(client, "/", round, "/", i)
						switch rnd.IntN(10) {
						case 0, 1, 2:
							add("+OK\r\n", "SET", key, text)
							add(bulk(text), "GET", key)
						case 3, 4:
							add(bulk(text), "ECHO", text)
						case 5:
							name := b.Prefix + text
							add("", "LOCK.ACQUIRE", name, "60000", "ID", text)
							add(":0\r\n", "LOCK.RELEASE", name, "other")
							add(":1\r\n", "LOCK.RELEASE", name, text)
						case 6:
							add("", "LOCK.ACQUIRE", b.Prefix+text, "60000", "BLOCK", "1000", "ID", text)
						case 7:
							add("-ERR value is not an integer or out of range\r\n", "LOCK.ACQUIRE", "x", "y")
						case 8:
							add("+PONG\r\n", "PING")
						case 9:
							if round%5 == 4 { // from here on, its own connection
								add("+OK\r\n", "MULTI")
								add("+QUEUED\r\n", "SET", key, text)
								add("+QUEUED\r\n", "LOCK.RELEASE", b.Prefix+"free", text)
								add("+QUEUED\r\n", "GET", key)
								add(array("+OK\r\n", ":0\r\n", bulk(text)), "EXEC")
							}
						}
					}
					if _, err := w.conn.Write(all); err != nil {
						t.Error(err)
						return
					}
					for i, want := range want {
						got, err := w.next()
						if err != nil || want != "" && got != want || want == "" && !strings.HasPrefix(got, "*3\r\n") {
							t.Errorf("client %d round %d reply %d: %q %v, want %q", client, round, i, got, err, want)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

// Promise: A client's commands run in the order sent, except a script that the back end has
// forgotten.
func TestScriptFlush(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	for round := range 20 {
		id := strconv.Itoa(round)
		var all []byte
		for _, c := range []string{
			"SET k " + id, "SCRIPT FLUSH", "LOCK.ACQUIRE a 60000 ID " + id, "GET k",
			"LOCK.RELEASE a " + id, "ECHO x", "SCRIPT FLUSH", "LOCK.RELEASE a " + id, "GET k",
		} {
			all = resp.AppendCommand(all, strings.Fields(c)...)
		}
		w.write(string(all))
		w.expect("+OK\r\n")
		w.expect("+OK\r\n")
		if got := w.read(); !strings.HasPrefix(got, "*3\r\n"+bulk(id)) {
			t.Fatalf("round %d: %q", round, got)
		}
		w.expect(bulk(id))
		w.read() // whether the release found the lock depends on what was missing
		w.expect(bulk("x"))
		w.expect("+OK\r\n")
		w.read()
		w.expect(bulk(id))
		w.do("LOCK.RELEASE", "a", id)
	}
}

func TestScriptFlushInTransaction(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w, other := dial(t, addr), dial(t, addr)
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "LOCK.ACQUIRE a 60000 ID me")
	other.want("+OK\r\n", "SCRIPT FLUSH")
	w.want("+QUEUED\r\n", "LOCK.RELEASE a me")
	other.want("+OK\r\n", "SCRIPT FLUSH")
	got := w.do("EXEC")
	if !strings.HasPrefix(got, "*2\r\n*3\r\n"+bulk("me")) || !strings.HasSuffix(got, ":60000\r\n:1\r\n") {
		t.Errorf("EXEC: %q", got)
	}
	// Outside of it, on the same connection: what is behind a script that has
	// to be sent again must not run into a transaction.
	other.want("+OK\r\n", "SCRIPT FLUSH")
	w.write(string(resp.AppendCommand(resp.AppendCommand(nil, "LOCK.RELEASE", "a", "me"), "MULTI")))
	w.expect(":1\r\n")
	w.expect("+OK\r\n")
	w.want("*0\r\n", "EXEC")
}
