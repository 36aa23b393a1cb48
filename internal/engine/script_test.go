package engine

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// scripts are run with one key and two arguments.
var scripts = []string{
	`return redis.call('GET',KEYS[1])`,
	`return redis.pcall('GET',KEYS[1])`,
	`redis.call('SET',KEYS[1],ARGV[1]) return redis.call('STRLEN',KEYS[1])`,
	`redis.call('DEL',KEYS[1]) redis.call('HSET',KEYS[1],'a',ARGV[1]) return redis.call('HGETALL',KEYS[1])`,
	`redis.setresp(3) redis.call('DEL',KEYS[1]) redis.call('HSET',KEYS[1],'a',ARGV[1]) return redis.call('HGETALL',KEYS[1])`,
	`redis.setresp(3) redis.call('DEL',KEYS[1]) redis.call('ZADD',KEYS[1],'1.5','a') return {redis.call('ZSCORE',KEYS[1],'a'), redis.call('ZSCORE',KEYS[1],'b')}`,
	`redis.call('DEL',KEYS[1]) redis.call('ZADD',KEYS[1],'1.5','a') return redis.call('ZSCORE',KEYS[1],'a')`,
	`redis.setresp(3) redis.call('DEL',KEYS[1]) redis.call('SADD',KEYS[1],'x') return redis.call('SMEMBERS',KEYS[1])`,
	`return redis.call('INCRBY',KEYS[1],ARGV[2])`,
	`return redis.pcall('INCRBY',KEYS[1],ARGV[2])`,
	`return {1,2.9,'x',false,true,{ok='fine'},{err='MY bad'},nil,4}`,
	`return {double=3.5}`, `redis.setresp(3) return {map={a=1}}`, `redis.setresp(3) return {set={a=true}}`, `redis.setresp(3) return {double=3.5}`, `redis.setresp(3) return {big_number='123'}`,
	`redis.setresp(3) return {verbatim_string={format='txt',string='hi'}}`, `redis.setresp(3) return {true,false}`, `redis.setresp(4)`,
	`return redis.error_reply('MY own')`, `return redis.error_reply('own')`, `return redis.status_reply('fine')`, `error('boom')`, `error({err='MY table'})`, `return nil`, `return`, `x = 1`, `return x`, `syntax error here`,
	`return redis.call('nosuch')`, `return redis.call('GET')`, `return redis.call('SUBSCRIBE','x')`, `return redis.call('MULTI')`, `return redis.call('EVAL','return 1','0')`, `return redis.call()`, `return redis.call({})`, `return redis.pcall('nosuch')`,
	`return redis.sha1hex(ARGV[1])`, `return #ARGV`, `return KEYS`, `return ARGV`, `return redis.replicate_commands()`, `return redis.set_repl(redis.REPL_ALL)`, `return redis.breakpoint()`, `redis.log(redis.LOG_DEBUG,'x')`,
	`redis.call('SELECT',1) redis.call('SET',KEYS[1],'one') return 'x'`, `return redis.call('BLPOP',KEYS[1],0)`, `return redis.call('PUBLISH','ch',ARGV[1])`, `redis.call('PFADD',KEYS[1],'a') return redis.call('PFCOUNT',KEYS[1])`,
	`redis.call('SET',KEYS[1],'x') error('after a write')`, `redis.call('LPUSH',KEYS[1],1,2,3) return redis.call('LRANGE',KEYS[1],0,-1)`, `return cjson.encode({1,2,ARGV[1]})`, `return redis.call('PING')`, `return redis.call('ECHO',1.5)`, `return redis.call('ECHO',2^53)`,
	"#!lua\nreturn redis.call('SET',KEYS[1],'x')", "#!lua flags=no-writes\nreturn redis.call('SET',KEYS[1],'x')", "#!lua flags=no-writes\nreturn redis.call('GET',KEYS[1])", "#!lua flags=foo\nreturn 1", "#!python\nreturn 1", "#!lua", "#!lua name=x\nreturn 1",
	`return redis.acl_check_cmd('get','x')`, `return redis.acl_check_cmd('nosuch')`, `return {redis.call('TTL',KEYS[1]) > -3}`, `return redis.REDIS_VERSION_NUM`, `return tostring(1732147200123456)`,
}

var scriptWords = map[string][]string{"script": scripts, "sha": shas(), "numkeys": {"1", "1", "1", "1", "0", "2", "3", "4", "-1", "x", ""}}

func shas() (list []string) {
	for i, s := range scripts {
		sum := sha1.Sum([]byte(s))
		sha := hex.EncodeToString(sum[:])
		if i%7 == 0 {
			sha = strings.ToUpper(sha)
		}
		list = append(list, sha)
	}
	return append(list, "x", strings.Repeat("0", 40))
}

var scriptTemplates = []string{
	"EVAL <script> 1 <k> <v> <i>", "EVAL <script> 1 <k> <v> <i>", "EVAL <script> <numkeys> <k> <v> <i>", "EVAL_RO <script> 1 <k> <v> <i>", "EVALSHA <sha> 1 <k> <v> <i>", "EVALSHA_RO <sha> 1 <k> <v> <i>", "EVALSHA <sha> <numkeys> <k>",
	"SCRIPT LOAD <script>", "SCRIPT EXISTS <sha> <sha>", "SCRIPT FLUSH [|||SYNC|ASYNC|foo]", "SCRIPT FLUSH SYNC now", "SCRIPT KILL", "SCRIPT foo", "FUNCTION FLUSH [||SYNC|ASYNC|foo]", "FUNCTION LIST [||WITHCODE|LIBRARYNAME x|LIBRARYNAME|foo]",
	"FUNCTION DELETE x", "FUNCTION KILL", "FCALL x 0", "FCALL_RO x 1 <k>", "FCALL x foo", "SET <k> <v>", "GET <k>", "DEL <k>", "MULTI", "EXEC", "EVAL <script> 1 <k> <v> <i>", "EVALSHA <sha> 1 <k> <v> <i>", "DISCARD", "DBSIZE", "EVAL <script>",
}

func runScript(s *Session, args ...string) string {
	a := make([][]byte, len(args))
	for i := range args {
		a[i] = []byte(args[i])
	}
	out, _ := s.Do(nil, a)
	return string(out)
}

func begins(t *testing.T, got, prefix string) {
	t.Helper()
	if !strings.HasPrefix(got, prefix) {
		t.Fatalf("reply is %q, want %q", got, prefix)
	}
}

// running returns when a script is slow.
func running(t *testing.T, e *Engine) {
	t.Helper()
	eventually(t, "a script is slow", func() bool { return e.scripts.slow.Load() > 0 })
}

func TestScriptKill(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	begins(t, runScript(s, "SCRIPT", "KILL"), "-NOTBUSY ")
	begins(t, runScript(s, "EVAL", "return 1", "0"), ":1") // somebody will look 5 s later
	begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "10"), "+OK")
	got := make(chan string)
	go func() { got <- runScript(e.Session(), "EVAL", "while true do end", "1", "{a}1") }()
	running(t, e)
	begins(t, runScript(s, "GET", "{a}2"), "-BUSY Redis is busy running a script.")
	begins(t, runScript(s, "GET", "{b}1"), "$-1")
	begins(t, runScript(s, "MULTI"), "+OK")
	begins(t, runScript(s, "GET", "{b}1"), "+QUEUED")
	begins(t, runScript(s, "GET", "{a}1"), "-BUSY")
	begins(t, runScript(s, "EXEC"), "-EXECABORT")
	begins(t, runScript(s, "SCRIPT", "KILL"), "+OK")
	begins(t, <-got, "-ERR Script killed by user with SCRIPT KILL...")
	begins(t, runScript(s, "GET", "{a}2"), "$-1")
	begins(t, runScript(s, "SCRIPT", "KILL"), "-NOTBUSY ")
}

// TestWatchedKeyOfASlowScript: WATCH does not wait for the script that holds the key, and a
// change by that script still ends the watch.
func TestWatchedKeyOfASlowScript(t *testing.T) {
	e := open(t, Options{ScriptTimeout: 20 * time.Second})
	s := e.Session()
	begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "10"), "+OK")
	watchers := []*Session{e.Session(), e.Session(), e.Session()}
	for _, w := range watchers {
		begins(t, runScript(w, "WATCH", "{a}1", "{c}1"), "+OK")
		begins(t, runScript(w, "MULTI"), "+OK")
		begins(t, runScript(w, "GET", "{b}1"), "+QUEUED")
	}
	got := make(chan string)
	go func() { got <- runScript(e.Session(), "EVAL", "while true do end", "1", "{a}1") }()
	running(t, e)
	began := time.Now()
	begins(t, runScript(watchers[0], "EXEC"), "-EXECABORT Transaction discarded because of: BUSY")
	begins(t, runScript(watchers[1], "DISCARD"), "+OK")
	begins(t, runScript(watchers[2], "RESET"), "+RESET")
	begins(t, runScript(watchers[2], "UNWATCH"), "+OK")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	begins(t, runScript(s, "SCRIPT", "KILL"), "+OK")
	<-got
	begins(t, runScript(s, "SET", "{a}1", "x"), "+OK")
	for _, w := range watchers {
		begins(t, runScript(w, "MULTI"), "+OK")
		begins(t, runScript(w, "GET", "{b}1"), "+QUEUED")
		begins(t, runScript(w, "EXEC"), "*1\r\n$-1")
		begins(t, runScript(w, "WATCH", "{a}1"), "+OK")
	}
	begins(t, runScript(s, "SET", "{a}1", "y"), "+OK")
	for _, w := range watchers {
		begins(t, runScript(w, "MULTI"), "+OK")
		begins(t, runScript(w, "EXEC"), "*-1")
	}
}

func TestScriptThatWroteIsNotKilled(t *testing.T) {
	e := open(t, Options{ScriptTimeout: 2 * time.Second}) // within which a busy machine sees that it is slow
	s := e.Session()
	begins(t, runScript(s, "CONFIG", "SET", "busy-reply-threshold", "10"), "+OK")
	got := make(chan string)
	go func() {
		got <- runScript(e.Session(), "EVAL", "redis.call('SET',KEYS[1],'x') while true do end", "1", "k")
	}()
	running(t, e)
	begins(t, runScript(s, "SCRIPT", "KILL"), "-UNKILLABLE ")
	begins(t, <-got, "-ERR script exceeded its time limit")
	begins(t, runScript(s, "GET", "k"), "$1\r\nx")
}

// TestNative runs a Go function only for a script that was loaded, and the
// script when the function declines.
func TestNative(t *testing.T) {
	const src = "return 'lua'"
	sum := sha1.Sum([]byte(src))
	sha := hex.EncodeToString(sum[:])
	wrongType := func(tx *Tx) { tx.Do(CommandOf("LPUSH"), tx.Keys[0], []byte("x")) }
	s := open(t, Options{Natives: map[string]Native{sha: func(tx *Tx) bool {
		switch string(tx.Args[0]) {
		case "decline":
			tx.Array(3)
			return false
		case "fail":
			wrongType(tx)
		case "fail after a write":
			tx.Do(CommandOf("DEL"), tx.Keys[0])
			tx.Do(CommandOf("SET"), tx.Keys[0], []byte("v"))
			wrongType(tx)
		case "panic":
			panic("oops")
		case "read":
			v := tx.Do(CommandOf("HMGET"), []byte("{"+string(tx.Keys[0])+"}"), []byte("a"), []byte("b"))
			tx.Array(v.Elements())
			a, ok := v.Bulk()
			tx.Bulk(a)
			_, ok2 := v.Bulk()
			tx.Int(b2i(ok)*10 + b2i(ok2))
			return true
		}
		tx.Bulk([]byte("go"))
		return true
	}}}).Session()
	begins(t, runScript(s, "EVALSHA", sha, "1", "k", "x"), "-NOSCRIPT ")
	begins(t, runScript(s, "SCRIPT", "LOAD", src), "$40")
	begins(t, runScript(s, "SET", "k", "v"), "+OK")
	begins(t, runScript(s, "HSET", "{k}", "a", "1"), ":1")
	for _, c := range [][2]string{
		{"x", "$2\r\ngo"}, {"decline", "$3\r\nlua"}, {"fail", "$3\r\nlua"}, {"fail after a write", "-WRONGTYPE "},
		{"panic", "-ERR internal error: oops"}, {"read", "*2\r\n$1\r\n1\r\n:10"},
	} {
		begins(t, runScript(s, "EVALSHA", sha, "1", "k", c[0]), c[1])
	}
	begins(t, runScript(s, "SCRIPT", "FLUSH"), "+OK")
	begins(t, runScript(s, "EVALSHA", sha, "1", "k", "x"), "-NOSCRIPT ")
	begins(t, runScript(s, "EVAL", src, "1", "k", "x"), "$2\r\ngo")
	begins(t, runScript(s, "EVALSHA", sha, "1", "k", "x"), "$2\r\ngo")
}

func TestScriptsOfManySessions(t *testing.T) {
	e := open(t, Options{})
	const src = "local n = redis.call('INCR',KEYS[1]) return {n,KEYS[1],ARGV[1]}"
	done := make(chan error)
	for g := range 8 {
		go func() {
			s := e.Session()
			s.SetProtocol(resp.RESP3)
			for i := range 300 {
				key, arg := fmt.Sprint("k", g), fmt.Sprint("arg", i)
				exp := fmt.Sprintf("*3\r\n:%d\r\n$2\r\n%s\r\n$%d\r\n%s\r\n", i+1, key, len(arg), arg)
				if got := runScript(s, "EVAL", src, "1", key, arg); got != exp {
					done <- fmt.Errorf("reply is %q, want %q", got, exp)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
