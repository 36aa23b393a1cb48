package server_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// conversation is one that has the same replies, byte for byte, with the
// back end itself and through the server. Words in quotes may contain blanks.
var conversation = strings.Split(strings.TrimSpace(`
PING
PING hello
PING a b
ECHO hello
ECHO
SET k v
GET k
get k
GeT missing
SET k v2 EX 100 XX
SETEX k 0 v
INCR k
INCR n
INCRBYFLOAT f 1.5
APPEND k abc
STRLEN k
GETRANGE k 0 1
MSET a 1 b 2 c 3
MGET a b missing c
DEL a b c missing
EXISTS k n
TYPE k
EXPIRE k 1000
PERSIST k
LPUSH l a b c d
LRANGE l 0 -1
LPOP l 2
LPOP missing 2
LPOS l a
SADD s a
SMEMBERS s
SISMEMBER s a
SMISMEMBER s a b
HSET h f1 v1
HGETALL h
HGETALL missing
HMGET h f1 f2
HRANDFIELD h 1 WITHVALUES
ZADD z 1 a 2.5 b
ZRANGE z 0 -1 WITHSCORES
ZSCORE z b
ZSCORE z missing
ZPOPMIN z
ZRANDMEMBER z 1 WITHSCORES
ZADD z NX GT 1 a
XADD x 1-1 f v
XRANGE x - +
XREAD COUNT 1 STREAMS x 0
XREAD COUNT 1 STREAMS x $
XREAD STREAMS x
XINFO STREAM x
GEOADD g 13.361389 38.115556 Palermo
GEOPOS g Palermo missing
GEODIST g Palermo missing
PFADD p a b c
PFCOUNT p
SETBIT bits 7 1
BITFIELD bits GET u4 0
BITCOUNT bits
OBJECT ENCODING k
OBJECT HELP
GET
SET k
NOSUCHCOMMAND a b
LPUSH k x
EVAL "return {1,2,{3,'four'},redis.status_reply('OK')}" 0
EVAL "return redis.error_reply('MY error')" 0
EVAL "redis.setresp(3); return {map={a=1}}" 0
EVAL "redis.setresp(3); return {double=3.25}" 0
EVAL "return nil" 0
EVAL "return {1,nil,3}" 0
EVAL "return redis.call('NOSUCH')" 0
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff
SCRIPT LOAD "return 1"
FUNCTION LIST
SCAN 0 MATCH nomatch COUNT 1000
CONFIG GET maxmemory-policy
CONFIG GET nosuch
LATENCY HISTOGRAM nosuch
MEMORY HELP
CONFIG SET slowlog-log-slower-than -1
SLOWLOG RESET
SLOWLOG LEN
ACL WHOAMI
LOLWUT VERSION 1
DEBUG JMAP
PUBLISH nobody hello
PUBSUB NUMSUB nobody
PUBSUB CHANNELS
SELECT 0
SELECT x
SELECT
QUIT_
AUTH
AUTH x
AUTH default x
HELLO 4
HELLO x
HELLO 2 NOSUCH
CLIENT
CLIENT GETNAME
CLIENT SETNAME "a b"
CLIENT SETNAME me
CLIENT GETNAME
CLIENT NOSUCH
CLIENT SETNAME
CLIENT GETREDIR
CLIENT TRACKINGINFO
CLIENT TRACKING OFF
CLIENT NO-EVICT on
CLIENT NO-EVICT x
CLIENT KILL 1.2.3.4:5
CLIENT KILL ID 0
CLIENT KILL ID 99999
CLIENT KILL NOSUCH x
CLIENT LIST TYPE nosuch
CLIENT LIST ID x
CLIENT REPLY x
COMMAND INFO get nosuch set
COMMAND DOCS get
COMMAND DOCS nosuch
COMMAND GETKEYS SET a b
COMMAND GETKEYS MSET a b c d
COMMAND GETKEYS PING
COMMAND LIST FILTERBY PATTERN xreadg*
COMMAND LIST FILTERBY NOSUCH a
COMMAND NOSUCH
CLIENT CACHING YES
CLIENT GETNAME
EXEC
DISCARD
UNWATCH
MULTI
MULTI
SET tx 1
GET tx
WATCH k
LRANGE l 0 -1
HGETALL h
EXEC
MULTI
SET tx
GET tx
EXEC
MULTI
SET tx 5
DISCARD
GET tx
MULTI
INCR k
GET k
EXEC
WATCH k
MULTI
EXEC
MULTI
PING
ECHO hi
SELECT 3
SET other 1
EXEC
GET other
GET k
SELECT 0
GET k
SELECT 99
BLPOP l 1
BLPOP k 1
BLPOP l
BLMOVE l l2 LEFT RIGHT 1
BZPOPMIN z 1
XREAD BLOCK 10 STREAMS x 0
XREAD BLOCK 10 STREAMS x $
WAIT 0 0
WAIT x 0
SCRIPT KILL
FUNCTION KILL
DEBUG SLEEP 0
READONLY
ASKING
SUBSCRIBE ch
PING
RESET
GET k
`), "\n")

// inPubSub are conversations in which the number of replies differs from that
// of the commands.
var inPubSub = []struct {
	send    string
	replies map[int]int // by protocol
}{
	{"UNSUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"SUBSCRIBE a b a", map[int]int{2: 3, 3: 3}},
	{"UNSUBSCRIBE b", map[int]int{2: 1, 3: 1}},
	{"PSUBSCRIBE p*", map[int]int{2: 1, 3: 1}},
	{"SSUBSCRIBE s", map[int]int{2: 1, 3: 1}},
	{"PING", map[int]int{2: 1, 3: 1}},
	{"PING x", map[int]int{2: 1, 3: 1}},
	{"GET k", map[int]int{2: 1, 3: 1}},
	{"UNSUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"PUNSUBSCRIBE nosuch", map[int]int{2: 1, 3: 1}},
	{"PUNSUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"SUNSUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"SUNSUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"SUBSCRIBE", map[int]int{2: 1, 3: 1}},
	{"GET k", map[int]int{2: 1, 3: 1}},
}

// unhurried starts a back end whose slow log stays empty, however busy the
// machine is: how long a command took must not show in the replies.
func unhurried(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--slowlog-log-slower-than", "-1")
}

func words(t *testing.T, line string) []string {
	t.Helper()
	var args []string
	for _, m := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		args = append(args, strings.Trim(m, `"`))
	}
	return args
}

func TestDifferential(t *testing.T) {
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			// Two servers, so that both conversations begin with no data.
			direct := unhurried(t)
			behind := unhurried(t)
			_, addr := start(t, behind.URL())
			a, b := dial(t, direct.Addr()), dial(t, addr)
			_, _ = a.do("HELLO", protocol), b.do("HELLO", protocol)
			for _, line := range conversation {
				args := words(t, line)
				a.send(args...)
				b.send(args...)
				want, got := a.read(), b.read()
				if want != got {
					t.Errorf("%s:\n got %q\nwant %q", line, got, want)
				}
				if line == "RESET" {
					a.want("+PONG\r\n", "PING")
					b.want("+PONG\r\n", "PING")
				}
			}
		})
	}
}

func TestDifferentialPubSub(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		direct := unhurried(t)
		behind := unhurried(t)
		_, addr := start(t, behind.URL())
		a, b := dial(t, direct.Addr()), dial(t, addr)
		version := string(rune('0' + protocol))
		_, _ = a.do("HELLO", version), b.do("HELLO", version)
		for _, step := range inPubSub {
			args := words(t, step.send)
			a.send(args...)
			b.send(args...)
			for range step.replies[protocol] {
				if want, got := a.read(), b.read(); want != got {
					t.Errorf("RESP%d %s:\n got %q\nwant %q", protocol, step.send, got, want)
				}
			}
		}
		// Nothing more came than was counted.
		if a.do("ECHO", "end"); len(a.buf) > 0 {
			t.Errorf("the back end said more: %q", a.buf)
		}
		b.want(bulk("end"), "ECHO end")
	}
}

// The same commands sent as one write give the same bytes, in the same order.
func TestDifferentialPipelined(t *testing.T) {
	for _, protocol := range []string{"2", "3"} {
		direct := unhurried(t)
		behind := unhurried(t)
		_, addr := start(t, behind.URL())
		a, b := dial(t, direct.Addr()), dial(t, addr)
		_, _ = a.do("HELLO", protocol), b.do("HELLO", protocol)
		var all strings.Builder
		n := 0
		for _, line := range conversation {
			if line == "SUBSCRIBE ch" {
				break
			}
			args := words(t, line)
			all.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
			for _, arg := range args {
				all.WriteString(bulk(arg))
			}
			n++
		}
		a.write(all.String())
		b.write(all.String())
		for i := range n {
			if want, got := a.read(), b.read(); want != got {
				t.Errorf("RESP%s %s:\n got %q\nwant %q", protocol, conversation[i], got, want)
			}
		}
	}
}
