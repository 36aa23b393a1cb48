package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// ruleAtoms are rules that random users have a few of.
var ruleAtoms = strings.Fields(`
	on off nopass resetpass reset >secret >other #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b !2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
	allkeys ~* resetkeys ~a ~a:* ~b? ~[a-c]:* %R~a:* %W~b* %RW~c %rw~c:* %R~* %W~*
	allchannels &* resetchannels &a &a:* &b?
	+@all allcommands +@all +@all nocommands -@all +@read -@write +@write -@dangerous +@fast -@slow +@pubsub +@keyspace -@admin
	+@connection -@connection +@scripting +@stream -@hash +@sortedset -@string +@slow +@transaction -@blocking
	+get -get +set +SORT -sort +client|id -client|kill +client -client +memory|usage -xgroup +xinfo|stream +publish -subscribe +eval
	-config +config|get -object +object|encoding +mget -copy +rename +bitfield -pfcount +georadius
	<secret <absent !00 #abc %x~a ~ & +@nosuch -@nosuch +nosuch -nosuch +client|nosuch nonsense
	sanitize-payload skip-sanitize-payload clearselectors
	+select|0 +select|1 -select +SET|a +config|get|x +get| -get|a +acl|whoami|x +type|a:1 -@keyspace
	() (~a*\t+get) (+@all\t~c*) (%R~*\t+@read\t-mget) (&a*\t+publish) (allkeys\t+set|b) (allkeys\t-@all\t+sort) (on) (>pw) (+nosuch) reset)
`)

// argumentWords are what commands get as arguments.
var argumentWords = strings.Fields("a a:1 b b1 c c:2 d 0 1 2 3 GET SET STORE BY LIMIT u8 STREAMS GROUP COUNT USAGE m a* 1-1 EX")

// TestRightsAreRedis: random users may do what a real server lets them do, for every command
// that it knows and random arguments, and rules are wrong when they are for it.
func TestRightsAreRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb := clienttest.Dial(t, srv.Addr())
	rng := rand.New(rand.NewPCG(1, 2))
	var names []string
	for name := range keySpecs {
		if !notInPools[name] && acl.Lookup(name) != nil && !later(rdb, t, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	subcommands := subcommandsOf(names)
	outcomes := map[string]int{}
	for range 300 {
		rules := make([]string, 1+rng.IntN(8))
		for i := range rules {
			rules[i] = strings.ReplaceAll(ruleAtoms[rng.IntN(len(ruleAtoms))], `\t`, " ")
		}
		user, fault := acl.New("u", strings.Join(rules, " "))
		err := rdb.Do(t.Context(), "ACL", "DELUSER", "u").Err()
		if err != nil {
			t.Fatal(err)
		}
		// Redis joins a selector that is in several words.
		err = rdb.Do(t.Context(), toAny("ACL", "SETUSER", "u", strings.Fields(strings.Join(rules, " ")))...).Err()
		if (err == nil) != (fault == nil) {
			t.Errorf("%q: %v here, %v there", rules, fault, err)
		}
		if err != nil || fault != nil {
			outcomes["wrong rules"]++
			continue
		}
		line, err := rdb.Do(t.Context(), "ACL", "LIST").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(line, func(l string) bool { return strings.HasPrefix(l, "user u ") })
		if got, want := keysAndChannels(user.Line()), keysAndChannels(line[at]); got != want {
			t.Errorf("%q:\n%s here\n%s there", rules, got, want)
		}
		pipe := rdb.Pipeline()
		var tried [][][]byte
		for _, name := range names {
			for range 4 {
				args := randomArguments(rng, name, subcommands[name])
				if fits(args) {
					tried = append(tried, args)
					pipe.Do(t.Context(), toAny("ACL", "DRYRUN", "u", args)...)
				}
			}
		}
		said, _ := pipe.Exec(t.Context())
		c := &rights{user: user}
		for i, args := range tried {
			there, err := said[i].(*redis.Cmd).Text()
			if err != nil {
				continue // the arguments are no good
			}
			here := c.refusalOfRedis(keySpecs[string(args[0])], args)
			if outcomes[gist(there)]++; gist(here) != gist(there) || c.denial.Loggable() && c.denial.DryRun() != there {
				t.Errorf("%q, %q: %q here (%q), %q there", rules, args, here, c.denial.DryRun(), there)
			}
		}
	}
	for _, o := range []string{"", "wrong rules", "key", "channel", "run the 'client|kill' command"} {
		if outcomes[o] == 0 {
			t.Errorf("no outcome was %q", o)
		}
	}
}

// keysAndChannels is a line of ACL LIST without the rules about commands: Redis makes them from what is allowed.
func keysAndChannels(line string) string {
	about := func(word string) bool {
		word = strings.TrimLeft(word, "(")
		return strings.HasPrefix(word, "+") || strings.HasPrefix(word, "-") || strings.HasSuffix(word, "sanitize-payload")
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(line), about), " ")
}

// gist is what an error and what ACL DRYRUN says, in other words, have in common.
func gist(text string) string {
	_, rest, refused := strings.Cut(text, "his user has no permissions to ")
	switch {
	case !refused: // or SORT, which Redis refuses when it runs
		return ""
	case strings.HasPrefix(rest, "run the "):
		return rest
	case strings.HasSuffix(rest, " channel") || strings.Contains(rest, "channels"):
		return "channel"
	}
	return "key"
}

// fits reports whether args are a command which it takes more to refuse than a look at where
// its keys are. Redis finds no keys in some that it refuses later.
func fits(args [][]byte) bool {
	k := keySpecs[string(args[0])]
	if !k.Takes(len(args)) || k.rights.Of(args) == nil {
		return false
	}
	at, ok := k.positions(nil, args)
	switch k.name {
	case "zdiffstore", "zinterstore", "zunionstore":
		return ok && len(at) > 1
	case "pfmerge": // of one key is a case for nobody but a bug in Redis, which doesn't look at it
		return len(at) > 1
	case "xreadgroup":
		return ok && string(args[1]) == "GROUP" && at[0] > 4
	}
	return ok || !k.Movable() || k.rights.Of(args) != k.rights
}

// later reports whether a command is of a later release than the server.
func later(rdb *redis.Client, t *testing.T, name string) bool {
	t.Helper()
	info, err := rdb.Do(t.Context(), "COMMAND", "INFO", name).Slice()
	if err != nil {
		t.Fatal(err)
	}
	return info[0] == nil
}

// subcommandsOf returns the names of the subcommands of each command.
func subcommandsOf(names []string) map[string][]string {
	subs := make(map[string][]string)
	for _, category := range acl.Categories() {
		for _, full := range acl.In(category) {
			if name, sub, ok := strings.Cut(full, "|"); ok && slices.Contains(names, name) && !slices.Contains(subs[name], sub) {
				subs[name] = append(subs[name], sub)
			}
		}
	}
	return subs
}

func randomArguments(rng *rand.Rand, name string, subs []string) [][]byte {
	args := [][]byte{[]byte(name)}
	if len(subs) > 0 && rng.IntN(10) > 0 {
		args = append(args, []byte(subs[rng.IntN(len(subs))]))
	}
	n := keySpecs[name].Arity
	if n < 0 {
		n = -n + rng.IntN(4)
	}
	for len(args) < n {
		args = append(args, []byte(argumentWords[rng.IntN(len(argumentWords))]))
	}
	return args
}

// toAny makes one list of words and lists of words.
func toAny(parts ...any) (all []any) {
	for _, p := range parts {
		switch p := p.(type) {
		case []string:
			for _, s := range p {
				all = append(all, s)
			}
		case [][]byte:
			for _, s := range p {
				all = append(all, s)
			}
		default:
			all = append(all, fmt.Sprint(p))
		}
	}
	return all
}
