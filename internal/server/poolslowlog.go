package server

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// slowlog answers SLOWLOG in front of a pool, with the entries of all servers of the ring, the latest
// first. Each entry keeps the id that its server gave it.
func (c *pooled) slowlog(args [][]byte, raw []byte) {
	sub := strings.ToLower(string(args[1]))
	switch {
	case sub == "get" && len(args) <= 3:
		most := int64(10)
		if len(args) == 3 {
			n, ok := resp.ParseInt(args[2])
			if !ok || n < -1 {
				c.fail("ERR count should be greater than or equal to -1")
				return
			}
			most = n
		}
		c.toAll(raw, func(dst []byte, j *join) []byte { return joinSlowest(dst, j, most) })
	case sub == "len" && len(args) == 2:
		c.toAll(raw, joinSums)
	case sub == "reset" && len(args) == 2:
		c.toAll(raw, joinOK)
	default:
		c.fail("ERR unknown subcommand or wrong number of arguments for '" + string(args[1]) + "'. Want SLOWLOG GET [count], LEN or RESET.")
	}
}

// joinSlowest puts slow logs together, at most so many entries unless most is -1.
func joinSlowest(dst []byte, j *join, most int64) []byte {
	type entry struct {
		raw  []byte
		when int64
	}
	var all []entry
	for _, raw := range j.replies {
		nl := bytes.IndexByte(raw, '\n')
		if raw[0] != '*' || nl < 0 {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than an array")
		}
		for raw = raw[nl+1:]; len(raw) > 0; {
			var scanner resp.ReplyScanner
			n, err := scanner.Next(raw)
			if err != nil || n == 0 {
				return resp.AppendError(dst, "ERR redoubt: a server answered with something else than a slow log")
			}
			all = append(all, entry{raw[:n], secondInt(raw[:n])})
			raw = raw[n:]
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.when, a.when) })
	if most >= 0 {
		all = all[:min(int64(len(all)), most)]
	}
	dst = resp.AppendArray(dst, len(all))
	for _, e := range all {
		dst = append(dst, e.raw...)
	}
	return dst
}

// shownSlow is how many commands of a pool's own slow log INFO shows.
const shownSlow = 32

func appendSlow(b *strings.Builder, slow *proxy.SlowLog) {
	fmt.Fprintf(b, "slow_commands:%d\r\n", slow.Total())
	for _, s := range slow.Latest(shownSlow) {
		fmt.Fprintf(b, "slow%d:time=%s,micros=%d,server=%s,client=%s,behind=%d,command=", s.ID, s.Time.UTC().Format("2006-01-02T15:04:05.000Z"), s.Took.Microseconds(), s.Server, s.Client, s.Behind)
		for i, a := range s.Args {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(strconv.Quote(a))
		}
		b.WriteString("\r\n")
	}
}

// secondInt returns the second element of an array whose first two are integers: the
// time of an entry of a slow log, behind its id.
func secondInt(raw []byte) int64 {
	lines := bytes.SplitN(raw, []byte("\r\n"), 4)
	if len(lines) < 4 || len(lines[2]) == 0 {
		return 0
	}
	n, _ := resp.ParseInt(lines[2][1:])
	return n
}
