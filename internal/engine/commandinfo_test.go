package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// TestCommandInfoIsRedis: COMMAND INFO describes each command and subcommand of the engine as a real server does, but for
// the list of subcommands: the engine lacks some.
func TestCommandInfoIsRedis(t *testing.T) {
	t.Run("RESP2", func(t *testing.T) { commandInfoIsRedis(t, resp.RESP2) })
	t.Run("RESP3", func(t *testing.T) { commandInfoIsRedis(t, resp.RESP3) })
}

func commandInfoIsRedis(t *testing.T, proto resp.Protocol) {
	p := newPair(t, proto)
	told := func(reply []byte) []any {
		v, _, err := resp.Parse(reply)
		list, _ := v.([]any)
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: %v", reply, err)
		}
		info, _ := list[0].([]any)
		return info[:min(9, len(info))]
	}
	compared := 0
	for _, b := range bindings {
		args := split("COMMAND INFO " + strings.ToUpper(b.name))
		reply, _ := p.s.Do(nil, args)
		here, there := told(reply), told(p.o.do(args))
		if len(there) == 0 {
			continue // of a later release
		}
		compared++
		if fmt.Sprintf("%#v", here) != fmt.Sprintf("%#v", there) {
			t.Errorf("%s:\n got %q\nwant %q", b.name, here, there)
		}
	}
	if compared < 250 {
		t.Errorf("%d commands compared", compared)
	}
	for _, args := range []string{
		"GET a", "MSET a 1 b 2", "SORT k BY x STORE d", "SORT_RO k BY x", "GEORADIUS k 1 1 1 m STORE a STOREDIST b", "GEORADIUSBYMEMBER k m 1 m",
		"XREAD COUNT 1 STREAMS a b 0 0", "XREADGROUP GROUP g c STREAMS a 0", "EVAL x 2 a b c", "EVAL x 0", "EVAL x 9 a", "LMPOP 1 a LEFT", "LMPOP 3 a LEFT",
		"ZUNIONSTORE d 2 a b", "ZUNIONSTORE d 5 a b", "PUBLISH c m", "SPUBLISH c m", "SSUBSCRIBE c", "SUBSCRIBE c", "PING x", "NOSUCH a", "GET a b",
		"OBJECT ENCODING k", "OBJECT NOSUCH k", "MEMORY USAGE k", "XINFO STREAM k", "WATCH a b", "BLPOP a b 0", "BITOP AND d a b", "LCS a b",
		"SET a b", "SET a b EX 1 get", "BITFIELD a GET u8 0", "BITFIELD a SET u8 0 1", "SORT k STORE d GET x", "MIGRATE h 1 k 0 1", "MIGRATE h 1  0 1 KEYS a b", "RENAME a b", "RENAMENX a b",
		"COPY a b", "PFMERGE a b c", "PFCOUNT a b", "ZRANGESTORE d s 0 1", "GEOSEARCHSTORE d s FROMMEMBER m BYRADIUS 1 m", "SINTERSTORE d a b", "EVAL_RO x 1 a", "FCALL f 1 a",
	} {
		p.do(split("COMMAND GETKEYS " + args))
		p.do(split("COMMAND GETKEYSANDFLAGS " + args))
	}
}
