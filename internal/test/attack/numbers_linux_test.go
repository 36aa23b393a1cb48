package attack

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// numbers are those at which something overflows, and their neighbours. Lengths
// that are allowed and large are left out: 512 MB of zeros is no attack.
var numbers = []string{
	"0", "-0", "1", "-1", "00", "+1", "1.5", "0x10", "1e308", "-1e308", "1e-308", "nan", "inf", "-inf", "", " 1",
	"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296",
	"4503599627370496", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
	"576460752303423488", "1152921504606846976", "1152921504606846975", "2305843009213693952", "4611686018427387904", "-4611686018427387905",
	"9223372036854775", "9223372036854775807", "-9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615", "18446744073709551616",
	"99999999999999999999999999999999999999", "1024", "65536",
}

// words are the options of Redis' and Redoubt's commands.
var words = strings.Fields("COUNT LIMIT MATCH TYPE EX PX EXAT PXAT KEEPTTL NX XX GT LT CH INCR GET WITHSCORES WITHVALUES WITHCOORD " +
	"BYSCORE BYLEX BYBOX BYRADIUS REV LEFT RIGHT BEFORE AFTER RANK MAXLEN WEIGHTS AGGREGATE SUM MIN MAX ALPHA ASC DESC STORE BY " +
	"BLOCK WAIT ID TTL FIELDS AND OR XOR NOT BIT BYTE SET INCRBY u63 i64 u8 OVERFLOW WRAP SAT FAIL REPLACE ABSTTL IDLETIME FREQ DB ANY " +
	"DELAY AT ATTEMPTS LANE GROUP UNIQUE SHARED FAIR OWNER LABEL DEAD REASON ITEMS CAPACITY ERROR EXPANSION NOCREATE m km FROMLONLAT " +
	"( [ - + * $ 1-1 k1 k2 k3 k4 k5 #0 #9223372036854775807")

// excluded end, empty or stop the server, on purpose, or change the connection so
// that replies mean something else; other attacks have some of them.
var excluded = strings.Fields("shutdown flushall flushdb swapdb client config debug replicaof slaveof monitor subscribe psubscribe ssubscribe " +
	"unsubscribe punsubscribe sunsubscribe quit hello sync psync replconf save bgsave migrate failover cluster acl module auth reset " +
	"restore-asking asking readonly readwrite latency select script function bgrewriteaof latency")

// kept are the keys of the attackers: a value of each type.
func prepare(c *caller) {
	for _, args := range []string{
		"DEL k1 k2 k3 k4 k5", "SET k1 hello", "RPUSH k2 a b c 1 2 3", "SADD k3 a b c 1 2 3", "ZADD k4 1 a 2 b 3 c", "HSET k5 a 1 b 2 c 3",
	} {
		_, _ = c.do(patience, strings.Fields(args)...) // A back end that lost its keys is fine too.
	}
}

// A known is a command of the table that COMMAND answers.
type known struct {
	name     string
	arity    int
	blocking bool // it may wait: WAIT has no flag that says so in Redis 7.0, but the category
}

func commandTable(c *caller) (table []known, err error) {
	reply, err := c.do(patience, "COMMAND")
	list, _ := reply.([]any)
	if err != nil || len(list) == 0 {
		return nil, errors.Join(errors.New("COMMAND answers no table"), err)
	}
	for _, e := range list {
		entry, _ := e.([]any)
		if len(entry) < 7 {
			continue
		}
		name, _ := entry[0].(string)
		arity, _ := entry[1].(int64)
		flags, _ := entry[2].([]any)
		categories, _ := entry[6].([]any)
		if name = strings.ToLower(name); !slices.Contains(excluded, name) {
			blocking := slices.Contains(flags, any("blocking")) || slices.Contains(categories, any("@blocking"))
			table = append(table, known{name, int(arity), blocking})
		}
	}
	return table, nil
}

// extremeNumbers sends every command of the table with random arguments, most of
// them extreme numbers. A command that doesn't block has a time to keep.
func extremeNumbers(ctx context.Context, rng *rand.Rand, on *round) {
	first := on.caller()
	defer first.close()
	table, err := commandTable(first)
	if err != nil {
		if on.running() && ctx.Err() == nil {
			on.fault("%v", err)
		}
		return
	}
	prepare(first)
	const keeps = 20 * time.Second
	each(rng, 4, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		for _, k := range rng.Perm(len(table)) {
			cmd := table[k]
			if k%4 != i || ctx.Err() != nil {
				continue
			}
			for range 6 {
				args := cmd.draw(rng)
				if slices.Contains(behind, on.on) && picksMany(args) {
					continue
				}
				limit := keeps
				if cmd.blocking {
					limit = 20 * time.Millisecond
				}
				_, err := c.do(limit, args...)
				if errors.Is(err, os.ErrDeadlineExceeded) && !cmd.blocking && ctx.Err() == nil {
					on.fault("%q has no reply after %v", args, keeps)
				}
			}
		}
		prepare(c)
	})
}

// picksMany reports whether a command has Redis itself pick members, with repetitions, for longer than anybody waits:
// HRANDFIELD hash -4611686018427387905. The server in front can't help that.
func picksMany(args []string) bool {
	if len(args) < 3 || !strings.HasSuffix(args[0], "randfield") && !strings.HasSuffix(args[0], "randmember") {
		return false
	}
	n, err := strconv.ParseInt(args[2], 10, 64)
	return err == nil && n < -1<<20
}

func (k known) draw(rng *rand.Rand) []string {
	n := max(k.arity, -k.arity) - 1
	if k.arity < 0 {
		n += rng.IntN(5)
	}
	args := []string{k.name}
	for i := range n {
		switch p := rng.IntN(10); {
		case i == 0 && p > 0:
			args = append(args, "k"+strconv.Itoa(1+rng.IntN(5)))
		case p < 6:
			args = append(args, numbers[rng.IntN(len(numbers))])
		default:
			args = append(args, words[rng.IntN(len(words))])
		}
	}
	return args
}

// globBombs are a pattern and a text that cost a backtracking matcher the product of
// their lengths, or worse.
func globBombs(rng *rand.Rand) (pattern, text string) {
	n := 100000 + rng.IntN(200000)
	text = strings.Repeat("a", 2*n)
	switch rng.IntN(5) {
	case 0:
		return "*" + strings.Repeat("a", n) + "b", text
	case 1:
		return strings.Repeat("a*", n/2) + "b", text
	case 2:
		return strings.Repeat("*?", n/2) + "b", text
	case 3:
		return "*[" + strings.Repeat("b", n) + "a]" + strings.Repeat("[ab]", 1000) + "c", text
	default:
		return strings.Repeat("*a", 50) + "*" + strings.Repeat("\\a", n/2) + "b", text
	}
}

func globs(ctx context.Context, rng *rand.Rand, on *round) {
	pattern, text := globBombs(rng)
	const keeps = 20 * time.Second
	setup := on.caller()
	defer setup.close()
	for i := range 20 {
		_, _ = setup.do(patience, "SET", text[:len(text)-i], "x") // The next commands count.
		_, _ = setup.do(patience, "HSET", "globs", text[:len(text)-i], "x")
	}
	commands := [][]string{
		{"KEYS", pattern}, {"SCAN", "0", "MATCH", pattern, "COUNT", "1000"}, {"HSCAN", "globs", "0", "MATCH", pattern, "COUNT", "1000"},
		{"CONFIG", "GET", pattern}, {"PUBSUB", "CHANNELS", pattern}, {"COMMAND", "LIST", "FILTERBY", "PATTERN", pattern},
		{"PUBLISH", text, "x"}, {"PUBLISH", text, "y"}, {"EVAL", "return #redis.call('KEYS',ARGV[1])", "0", pattern},
	}
	w := on.dial()
	if w == nil {
		return
	}
	defer w.Close()
	// Clients that disconnect take the lock of the subscriptions.
	if w.raw(resp.AppendCommand(nil, "PSUBSCRIBE", pattern)) != nil {
		return
	}
	_, _ = w.reply() // A refusal is fine.
	each(rng, 3, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		for _, k := range rng.Perm(len(commands)) {
			if ctx.Err() != nil {
				return
			}
			_, err := c.do(keeps, commands[k]...)
			if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
				on.fault("%s with a pattern of %d bytes has no reply after %v", commands[k][0], len(pattern), keeps)
			}
		}
	})
	_, _ = setup.do(patience, "UNLINK", "globs")
}
