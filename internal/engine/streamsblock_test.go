package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A blockedPair is a client of the engine and one of Redis that do the same, and may wait.
type blockedPair struct {
	s    *Session
	o    *oracle
	wait *Wait
	line string // that waits
}

// blockedByRedis is how many clients wait, as INFO tells it to o.
func blockedByRedis(o *oracle) int {
	info := string(o.do(split("INFO clients")))
	_, rest, _ := strings.Cut(info, "blocked_clients:")
	n := 0
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// TestDifferentialBlocked compares which commands wait for streams, on the engine and on redis-server,
// when they are served, and with what. SWAPDB is not among them: Redis serves the keys in an order of its own.
func TestDifferentialBlocked(t *testing.T) {
	readers := []string{
		"XREAD BLOCK 0 STREAMS <k> $", "XREAD BLOCK 0 COUNT 1 STREAMS <k> <k> $ $", "XREAD BLOCK 0 STREAMS <k> <k> <x> $", "XREADGROUP GROUP <g> <c> BLOCK 0 STREAMS <k> >", "XREADGROUP GROUP <g> <c> BLOCK 0 NOACK COUNT 1 STREAMS <k> >",
		"XREADGROUP GROUP <g> <c> COUNT 2 BLOCK 0 STREAMS <k> <k> > >", "BLPOP <k> 0", "BZPOPMIN <k> <k> 0",
	}
	writers := []string{
		"XADD <k> 50-* f <n>", "XADD <k> 50-* f <n>", "XADD <k> 50-* f <n>", "XADD <k> <e> f v", "XADD <k> MAXLEN 0 50-* f v", "XGROUP CREATE <k> <g> $ MKSTREAM", "XGROUP CREATE <k> <g> 0", "XGROUP CREATE <k> <g> $ MKSTREAM", "XGROUP DESTROY <k> <g>", "XGROUP SETID <k> <g> [0|$|<x>]", "XDEL <k> <x>", "XTRIM <k> MAXLEN <n>", "XSETID <k> 50-100", "DEL <k>", "SET <k> v", "RPUSH <k> v", "ZADD <k> 1 m",
		"RENAME <k> <k>", "COPY <k> <k> REPLACE", "PEXPIRE <k> -1", "MULTI", "EXEC", "EXEC", "XPENDING <k> <g>", "XINFO GROUPS <k>", "XREADGROUP GROUP <g> <c> STREAMS <k> >", "XCLAIM <k> <g> <c> 0 <x> FORCE", "SUNIONSTORE <k> <k>", "SADD <k> v", "FLUSHDB", "XRANGE <k> - +",
	}
	for _, proto := range []resp.Protocol{resp.RESP2, resp.RESP3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			t.Parallel()
			v := newVocabulary(randtest.Rand(t))
			steps := randtest.Watch(t)
			e, socket := open(t, Options{}), startOracle(t)
			dial := func() *blockedPair {
				p := &blockedPair{s: e.Session(), o: dialOracle(t, socket)}
				if proto == resp.RESP3 {
					p.s.SetProtocol(proto)
					p.o.do(split("HELLO 3"))
				}
				return p
			}
			writer, control := dial(), dialOracle(t, socket)
			clients := []*blockedPair{dial(), dial(), dial(), dial()}
			var log []string
			failed := 0
			compare := func(line string, got, want []byte) {
				if bytes.Equal(got, want) {
					return
				}
				t.Errorf("%s\n got %.400q\nwant %.400q\nafter:\n%s", line, got, want, strings.Join(log[max(0, len(log)-90):], "\n"))
				if failed++; failed > 3 {
					t.FailNow()
				}
			}
			for range *rounds {
				p, list := writer, writers
				if v.r.IntN(2) == 0 {
					if c := clients[v.r.IntN(len(clients))]; c.wait == nil {
						p, list = c, readers
					}
				}
				args := v.fill(list[v.r.IntN(len(list))])
				line := quote(args)
				log = append(log, line)
				steps.Begin(func() string { return line })
				var got []byte
				got, p.wait = p.s.Do(nil, args)
				p.line = line
				p.o.send(resp.AppendCommand(nil, args...))
				if p.wait == nil {
					compare(line, got, p.o.read())
				}
				// The served commands answer now.
				waiting := 0
				for _, c := range clients {
					if c.wait == nil {
						continue
					}
					select {
					case <-c.wait.Done():
						log = append(log, "served: "+c.line)
						compare("served: "+c.line, c.wait.Append(nil), c.o.read())
						c.wait = nil
					default:
						waiting++
					}
				}
				await.Until(t, 10*time.Second, fmt.Sprintf("%d clients of Redis wait, after\n%s", waiting, strings.Join(log[max(0, len(log)-90):], "\n")), func() bool { return blockedByRedis(control) == waiting })
				steps.End()
			}
			for _, c := range clients {
				if c.wait != nil {
					c.wait.Cancel()
				}
			}
		})
	}
}
