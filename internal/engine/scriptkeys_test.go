package engine

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestScriptsThatKeepToTheirKeys(t *testing.T) {
	e := open(t, Options{})
	for script, want := range map[string]bool{
		"return 1":                                                             true,
		"return redis.call('GET', KEYS[1])":                                    true,
		"return redis.call('TIME')":                                            true,
		"return redis.call('NOSUCH', ARGV[1])":                                 true,
		"return redis.call('PUBLISH', ARGV[1], 'x')":                           true,
		"return redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])":        true,
		"return redis.call('DEL', unpack(KEYS))":                               true,
		"return redis.call('HSET', KEYS[1], unpack(ARGV))":                     true,
		"return redis.call('RENAME', KEYS[1], KEYS[2])":                        true,
		"return redis.call('OBJECT', 'ENCODING', KEYS[1])":                     true,
		"return redis.call('BLPOP', KEYS[1], KEYS[2], 0)":                      true,
		"return redis.call('GET', ARGV[1])":                                    false,
		"return redis.call('GET', 'k')":                                        false,
		"return redis.call('GET', KEYS[1] .. 'x')":                             false,
		"return redis.call('MSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3])":        false,
		"return redis.call('MSET', KEYS[1], KEYS[2], unpack(KEYS))":            false,
		"return redis.call('DEL', KEYS[1], unpack(ARGV))":                      false,
		"return redis.call('BLPOP', KEYS[1], unpack(KEYS))":                    false,
		"return redis.call('GET', unpack(ARGV))":                               false,
		"return redis.call('RENAME', KEYS[1], ARGV[1])":                        false,
		"return redis.call('OBJECT', ARGV[1], KEYS[1])":                        false,
		"return redis.call('OBJECT', 'ENCODING', ARGV[1])":                     false,
		"return redis.call(ARGV[1], KEYS[1])":                                  false,
		"return redis.call(unpack(KEYS))":                                      false,
		"return redis.call('DBSIZE')":                                          false,
		"return redis.call('FLUSHALL')":                                        false,
		"return redis.call('KEYS', '*')":                                       false,
		"return redis.call('SCAN', 0)":                                         false,
		"return redis.call('RANDOMKEY')":                                       false,
		"return redis.call('SORT', KEYS[1], 'BY', 'w_*')":                      false,
		"return redis.call('ZUNIONSTORE', KEYS[1], ARGV[1], KEYS[2], KEYS[3])": false,
		"return pcall(redis.call, 'GET', KEYS[1])":                             false,
		"redis.call('GET', KEYS[1]) return redis.call('GET', ARGV[1])":         false,
	} {
		sc, err := e.Session().load([]byte(script))
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if sc.keysOnly != want {
			t.Errorf("%s: keeps to its keys is %v, want %v", script, sc.keysOnly, want)
		}
	}
}

// Promise: A script never uses a key whose shard it does not hold.
func TestScriptUndeclaredKeys(t *testing.T) {
	const src = "return redis.call('SET',ARGV[1],'x')"
	s := open(t, Options{}).Session()
	begins(t, runScript(s, "EVAL", src, "0", "k"), "+OK")
	begins(t, runScript(s, "EVAL", "return redis.call('DBSIZE')", "0"), ":1")
	begins(t, runScript(s, "EVAL", "redis.call('SET',KEYS[1],'x') return redis.call('GET',ARGV[1])", "1", "other", "k"), "$1\r\nx")
	s = open(t, Options{StrictKeys: true}).Session()
	begins(t, runScript(s, "EVAL", src, "0", "k"), "-ERR Script attempted to access a non local key in a cluster node")
	begins(t, runScript(s, "EVAL", "return redis.call('DBSIZE')", "0"), "-ERR Script attempted to use a command that needs every key")
	begins(t, runScript(s, "EVAL", src, "1", "k", "k"), "+OK")
}

// TestScriptLoadedInTransaction runs one that nobody knew when the transaction
// took its locks.
func TestScriptLoadedInTransaction(t *testing.T) {
	const src = "return redis.call('SET',ARGV[1],'x')"
	s := open(t, Options{}).Session()
	sum := sha1.Sum([]byte(src))
	for range 2 {
		begins(t, runScript(s, "MULTI"), "+OK")
		begins(t, runScript(s, "SCRIPT", "FLUSH"), "+QUEUED")
		begins(t, runScript(s, "SCRIPT", "LOAD", src), "+QUEUED")
		begins(t, runScript(s, "EVALSHA", hex.EncodeToString(sum[:]), "1", "here", "there"), "+QUEUED")
		if got := runScript(s, "EXEC"); !strings.HasSuffix(got, "+OK\r\n") {
			t.Fatalf("EXEC: %q", got)
		}
	}
}

// A script that keeps to its keys holds up no command on other shards. A script that may use any
// key holds up all commands.
//
// Promise: A script never uses a key whose shard it does not hold.
func TestScriptsHoldWhatTheyNeed(t *testing.T) {
	for script, other := range map[string]string{
		"redis.call('GET', KEYS[1]) while true do end": "$-1",
		"redis.call('GET', ARGV[1]) while true do end": "-BUSY ",
		"while true do end":                            "$-1",
		"while true do redis.call('PING') end":         "-BUSY ", // is given no keys
	} {
		keys := []string{"1", "{a}1"}
		if strings.Contains(script, "PING") {
			keys = []string{"0"}
		}
		e := open(t, Options{})
		s := e.Session()
		begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "10"), "+OK")
		got := make(chan string)
		go func() { got <- runScript(e.Session(), append(append([]string{"EVAL", script}, keys...), "{a}1")...) }()
		running(t, e)
		begins(t, runScript(s, "GET", "{a}2"), "-BUSY ")
		begins(t, runScript(s, "GET", "{b}1"), other)
		begins(t, runScript(s, "SCRIPT", "KILL"), "+OK")
		begins(t, <-got, "-ERR Script killed by user")
	}
}

// TestScriptsAreAtomicTogether moves money between accounts by scripts with and without declared
// keys, in and out of transactions, while scripts are flushed. Every count finds all the money.
//
// Promise: Every client sees a transaction or a script as a whole or not at all.
func TestScriptsAreAtomicTogether(t *testing.T) {
	const (
		accounts, each = 12, 1000
		move           = "redis.call('DECRBY', %[1]s[1], 1) redis.call('INCRBY', %[1]s[2], 1) return 'moved'"
		count          = "local n = 0 for i = 0, %d do n = n + redis.call('GET', 'account:' .. i) end return n"
	)
	scripts := map[string]string{"declared": fmt.Sprintf(move, "KEYS"), "undeclared": fmt.Sprintf(move, "ARGV"), "count": fmt.Sprintf(count, accounts-1)}
	e := open(t, Options{})
	account := func(i int) string { return "account:" + strconv.Itoa(i) }
	all := []string{"MGET"}
	for i := range accounts {
		all = append(all, account(i))
		begins(t, runScript(e.Session(), "SET", account(i), strconv.Itoa(each)), "+OK")
	}
	total := fmt.Sprint(":", accounts*each)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			s, rng := e.Session(), rand.New(rand.NewPCG(uint64(g), 1))
			want := func(what, got, prefix string) {
				if !strings.HasPrefix(got, prefix) && !strings.HasPrefix(got, "-NOSCRIPT ") {
					t.Errorf("%s: %q, want %q", what, got, prefix)
				}
			}
			for range rounds {
				from, to := account(rng.IntN(accounts)), account(rng.IntN(accounts))
				switch rng.IntN(7) {
				case 0, 1:
					want("a declared move", runScript(s, "EVAL", scripts["declared"], "2", from, to), "$5\r\nmoved")
				case 2:
					want("an undeclared move", runScript(s, "EVAL", scripts["undeclared"], "0", from, to), "$5\r\nmoved")
				case 3:
					want("a script that counts", runScript(s, "EVAL", scripts["count"], "1", from), total)
				case 4:
					sum := sha1.Sum([]byte(scripts["undeclared"]))
					want("a move by digest", runScript(s, "EVALSHA", hex.EncodeToString(sum[:]), "1", from, from, to), "$5\r\nmoved")
				case 5:
					runScript(s, "MULTI")
					runScript(s, "EVAL", scripts["declared"], "2", from, to)
					runScript(s, "EVAL", scripts["undeclared"], "0", to, from)
					want("a transaction", runScript(s, "EXEC"), "*2\r\n$5\r\nmoved\r\n$5\r\nmoved")
				case 6:
					if rng.IntN(10) == 0 {
						runScript(s, "SCRIPT", "FLUSH")
					}
					n := 0
					for i, line := range strings.Split(runScript(s, all...), "\r\n") {
						if i > 0 && i%2 == 0 {
							v, _ := strconv.Atoi(line)
							n += v
						}
					}
					want("MGET", fmt.Sprint(":", n), total)
				}
			}
		})
	}
	wg.Wait()
}

// A script of a transaction is loaded when its turn comes.
func TestScriptInTransactionIsLoadedInTurn(t *testing.T) {
	s := open(t, Options{}).Session()
	const source = "return KEYS[1]"
	sum := sha1.Sum([]byte(source))
	exists := "SCRIPT EXISTS " + hex.EncodeToString(sum[:])
	want(t, s, "MULTI", "+OK\r\n")
	want(t, s, exists, "+QUEUED\r\n")
	begins(t, runScript(s, "EVAL", source, "1", "k"), "+QUEUED")
	want(t, s, exists, "+QUEUED\r\n")
	want(t, s, "EXEC", "*3\r\n*1\r\n:0\r\n$1\r\nk\r\n*1\r\n:1\r\n")
}
