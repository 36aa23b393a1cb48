package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestACLIsRedis: ACL LIST, USERS, GETUSER and DRYRUN answer as a real server does.
func TestACLIsRedis(t *testing.T) {
	users := map[string]string{
		"default": "on nopass ~* &* +@all", "app": "on >pw ~a* %R~r* resetchannels &ch* +@all", "off": "",
		"reader": "on nopass allkeys -@all +get +mget", "multi": "on >pw ~a* -@all +select|0 (~s* resetchannels -@all +set) (%R~x* &c* -@all +mget)", "shut": "off >pw >other ~* &* +@all",
	}
	real := redistest.Start(t)
	there := dial(t, real.Addr())
	for name, rules := range users {
		there.want("+OK\r\n", strings.TrimSpace("ACL SETUSER "+name+" resetchannels "+rules))
	}
	for _, protocol := range []string{"2", "3"} {
		there.do("HELLO", protocol)
		for name, url := range map[string]string{"engine": engineURL(t), "redis": redistest.Start(t).URL()} {
			_, addr := start(t, url, func(o *server.Options) { o.Users = users })
			here := dial(t, addr)
			here.do("HELLO", protocol)
			for _, line := range []string{
				"ACL LIST", "ACL USERS", "ACL WHOAMI", "ACL GETUSER app", "ACL GETUSER off", "ACL GETUSER reader", "ACL GETUSER shut", "ACL GETUSER multi", "ACL GETUSER nobody",
				"ACL DRYRUN app GET a1", "ACL DRYRUN app SET r1 x", "ACL DRYRUN reader DEL a", "ACL DRYRUN nobody GET a", "ACL DRYRUN app nosuch", "ACL DRYRUN app PUBLISH x y", "ACL DRYRUN default SET a b",
				"ACL DRYRUN multi GET a1", "ACL DRYRUN multi SET s1 x", "ACL DRYRUN multi SET a1 x", "ACL DRYRUN multi GET x1", "ACL DRYRUN multi MGET x1 a1", "ACL DRYRUN multi DEL x", "ACL DRYRUN multi SELECT 0", "ACL DRYRUN multi SELECT 1", "ACL DRYRUN multi PUBLISH c1 x",
				"ACL GETUSER", "ACL DRYRUN app", "ACL", "MULTI", "ACL WHOAMI", "EXEC",
			} {
				// Redis lists commands in the order of a hash table with a random seed.
				got, want := here.do(words(t, line)...), strings.Replace(there.do(words(t, line)...), "+mget +get", "+get +mget", 1)
				if got != want {
					t.Errorf("%s: %s: %q, want %q", name, line, got, want)
				}
			}
			if got := here.do("ACL", "SETUSER", "x"); name == "redis" && !strings.HasPrefix(got, "-ERR unknown command 'ACL SETUSER'") {
				t.Errorf("ACL SETUSER: %q", got)
			}
		}
	}
}

// TestScriptsHaveTheRightsOfTheirUser: on the engine, each command of a script is checked as on a real server, also
// on keys that the script doesn't declare, and in a transaction.
func TestScriptsHaveTheRightsOfTheirUser(t *testing.T) {
	rules := "on >pw ~a* %R~r* resetchannels &news +@all -del"
	real := redistest.Start(t)
	dial(t, real.Addr()).want("+OK\r\n", "ACL SETUSER app "+rules)
	_, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Users = map[string]string{"app": rules, "all": "on >pw ~* &* +@all"}
	})
	here, there := login(t, addr, "app"), login(t, real.Addr(), "app")
	scripts := []string{
		`return redis.call('GET','a')`, `return redis.call('GET','b')`, `return redis.call('SET','r','x')`, `return redis.call('GET','r')`,
		`return redis.call('DEL','a')`, `return redis.pcall('GET','b')`, `return redis.pcall('DEL','a')['err']`, `return redis.call('SORT','a','BY','w_*')`,
		`return redis.call('PUBLISH','news','x')`, `return redis.call('PUBLISH','other','x')`, `return redis.call('MGET','a','b')`,
		`return redis.acl_check_cmd('GET','a')`, `return redis.acl_check_cmd('GET','b')`, `return redis.acl_check_cmd('DEL','a')`,
		`return redis.call('CONFIG','GET','x')`, `return redis.call('NOSUCH')`, `redis.call('SET','a','1') return redis.call('GET','b')`,
	}
	// The line of the error's place is left out: it is another in Redis.
	gist := func(reply string) string {
		text, _, _ := strings.Cut(reply, " script: ")
		return text
	}
	refused := 0
	for _, s := range scripts {
		var steps [][]string
		steps = append(steps, []string{"EVAL", s, "0"}, []string{"SCRIPT", "LOAD", s}, []string{"MULTI"}, []string{"EVAL", s, "0"}, []string{"EXEC"})
		for _, args := range steps {
			got, want := here.do(args...), there.do(args...)
			if gist(got) != gist(want) {
				t.Errorf("%q: %q, want %q", args, got, want)
			}
			if strings.Contains(want, "The user executing the script can't") {
				refused++
			}
		}
		here.want("+RESET\r\n", "RESET")
		here.want("+OK\r\n", "AUTH app pw")
	}
	if refused < 10 {
		t.Errorf("%d refusals", refused)
	}
	// Redoubt's own scripts use their declared keys only, and the user of the moment counts.
	here.want("+OK\r\n", "MULTI")
	here.want("+QUEUED\r\n", "LOCK.ACQUIRE a 1000")
	if got := here.do("EXEC"); !strings.HasPrefix(got, "*1\r\n*3\r\n") {
		t.Errorf("LOCK.ACQUIRE: %q", got)
	}
	here.want("+OK\r\n", "AUTH all pw")
	if got := here.do("EVAL", "return redis.call('GET','b')", "0"); got != "$-1\r\n" {
		t.Errorf("after AUTH of another: %q", got)
	}
	here.want("+OK\r\n", "AUTH app pw")
	if got := here.do("EVAL", "return redis.call('GET','b')", "0"); !strings.Contains(got, "The user executing the script") {
		t.Errorf("after AUTH: %q", got)
	}
}

// TestScriptOfFenceKeepsRights: the script of FENCE.DO runs what its caller says, so that its commands are checked,
// whoever calls it. The key of the fence itself has no name that a user has rights to.
func TestScriptOfFenceKeepsRights(t *testing.T) {
	_, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Users = map[string]string{"app": "on >pw ~a ~ledger +evalsha +eval +fence.do +get +multi +exec +reset", "all": "on >pw ~* &* +@all"}
	})
	all, w := login(t, addr, "all"), login(t, addr, "app")
	all.want("+OK\r\n", "SET b secret")
	i := slices.IndexFunc(command.Scripts(), func(s *redoubt.Script) bool { return s.Name() == "fence.guard" })
	guard := command.Scripts()[i]
	for _, run := range [][]string{{"EVAL", guard.Source()}, {"EVALSHA", guard.Digest()}} {
		for _, call := range [][]string{{"GET", "b"}, {"DEL", "a"}, {"FLUSHALL"}} {
			args := append(slices.Clone(run), "1", "a", "1", "0", itoa(len(call)), "0", "0")
			if got := w.do(append(args, call...)...); !strings.Contains(got, "The user executing the script can't") {
				t.Errorf("%s of %q: %q", run[0], call, got)
			}
		}
	}
	all.want("+OK\r\n", "SET ledger 7")
	w.want(bulk("7"), "FENCE.DO ledger 7 GET ledger") // the fence's own key doesn't need a right
}

// TestACLLog: ACL LOG has what a real server's has: equal entries are one, of commands, keys, channels and logins, at
// the top level, in transactions and on the engine in scripts. It lacks the commands that redis.acl_check_cmd denies.
func TestACLLog(t *testing.T) {
	users := map[string]string{
		"default": "on nopass ~* &* +@all", "app": "on >pw ~a* (%R~r* -@all +@read) resetchannels &news +@all -del", "admin": "on >pw ~* &* +@all",
	}
	real := redistest.Start(t)
	for name, rules := range users {
		dial(t, real.Addr()).want("+OK\r\n", "ACL SETUSER "+name+" resetchannels "+rules)
	}
	pool := usersPool(t, users)
	_, engine := start(t, engineURL(t), func(o *server.Options) { o.Users = users })
	_, single := start(t, redistest.Start(t).URL(), func(o *server.Options) { o.Users = users })
	// Age and the client's line differ; of the line, the client's user, name and command count.
	volatile := regexp.MustCompile(`id=\d+ .*?(name=\S*) .*? (cmd=\S+) (user=\S+) [^\r]*`)
	age := regexp.MustCompile(`(age-seconds\r\n)(\$\d+\r\n|,)0?[.\d]+(e-\d+)?\r\n`)
	length := regexp.MustCompile(`client-info\r\n\$\d+`)
	gist := func(log string) string {
		log = length.ReplaceAllString(log, "client-info")
		return age.ReplaceAllString(volatile.ReplaceAllString(log, "$1 $2 $3"), "$1")
	}
	talk := func(addr, protocol string, scripts bool) (logs []string) {
		admin, w := login(t, addr, "admin"), login(t, addr, "app")
		admin.do("HELLO", protocol)
		w.do("CLIENT", "SETNAME", "me")
		admin.want("+OK\r\n", "ACL LOG RESET")
		for _, line := range []string{
			"GET b", "get b", "SET b x", "GET c", "DEL a", "SET r1 x", "GET r1", "MGET a r1", "PUBLISH other x", "PUBLISH news x", "CONFIG SET x", "GET",
			"MULTI", "GET b", "DEL b", "EXEC", "MULTI", "GET a", "EXEC", "AUTH app wrong", "auth app wrong", "AUTH nobody x", "AUTH x", "HELLO 2 AUTH app wrong",
			"SORT a1 BY w_*", "GET b", "SUBSCRIBE other",
		} {
			w.do(words(t, line)...)
			if line == "SET b x" || line == "DEL a" {
				logs = append(logs, admin.do("ACL", "LOG"))
			}
		}
		if scripts {
			for _, s := range []string{"return redis.call('GET','b')", "return redis.pcall('DEL','a')", "return redis.call('PUBLISH','x','y')", "return redis.acl_check_cmd('GET','c')"} {
				w.do("EVAL", s, "0")
			}
		}
		return append(logs, admin.do("ACL", "LOG"), admin.do("ACL", "LOG", "100"), admin.do("ACL", "LOG", "2"), admin.do("ACL", "LOG", "0"), admin.do("ACL", "LOG", "-1"), admin.do("ACL", "LOG", "x"),
			admin.do("ACL", "LOG", "1", "2"), w.do("ACL", "LOG"), admin.do("ACL", "LOG", "RESET"), admin.do("ACL", "LOG"))
	}
	for name, addr := range map[string]string{"engine": engine, "redis": single, "pool": pool.addr} {
		for _, protocol := range []string{"2", "3"} {
			got, want := talk(addr, protocol, name == "engine"), talk(real.Addr(), protocol, name == "engine")
			for i := range want {
				if gist(got[i]) != gist(want[i]) {
					t.Errorf("%s, protocol %s, log %d:\n%q\nwant\n%q", name, protocol, i, gist(got[i]), gist(want[i]))
				}
			}
			if n := strings.Count(want[3], "count"); n < 10 {
				t.Errorf("%d entries", n)
			}
		}
	}
}

// TestUnknownIsRefused: rights on what Redoubt doesn't know can't be checked, so that a user with limited rights may
// not send it to the server behind. Other users may.
func TestUnknownIsRefused(t *testing.T) {
	_, addr := start(t, redistest.Start(t).URL(), func(o *server.Options) {
		o.Users = map[string]string{"app": "on >pw ~a* +@all", "all": "on >pw ~* &* +@all"}
	})
	app, all := login(t, addr, "app"), login(t, addr, "all")
	for _, line := range []string{"JSON.GET b", "EVAL x y b", "CLIENT NOSUCH"} {
		if got := app.do(words(t, line)...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: %q", line, got)
		}
	}
	app.want("-ERR syntax error\r\n", "EVAL x y b")
	if got := all.do("EVAL", "x", "y", "b"); !strings.Contains(got, "not an integer") {
		t.Errorf("the server says %q", got)
	}
}

// TestSetUserIsRedis: on the engine, ACL SETUSER, DELUSER, GENPASS and HELP answer as a real server does, and what
// they leave is the same.
func TestSetUserIsRedis(t *testing.T) {
	real := redistest.Start(t)
	there := dial(t, real.Addr())
	_, addr := start(t, engineURL(t))
	here := dial(t, addr)
	for _, line := range [][]string{
		{"ACL", "SETUSER", "a"}, {"ACL", "SETUSER", "a", "on", ">pw", "~k*", "+@all"}, {"ACL", "SETUSER", "a", "-del"}, {"ACL", "SETUSER", "a", "+@read"}, {"ACL", "SETUSER", "a", "+client|id"}, {"ACL", "SETUSER", "a", "+get|a|b"},
		{"ACL", "SETUSER", "a", "~other", "%R~r*", "&ch", "&ch*"}, {"ACL", "SETUSER", "a", "resetkeys", "~*"}, {"ACL", "SETUSER", "a", "~x"},
		{"ACL", "SETUSER", "a", "allchannels"}, {"ACL", "SETUSER", "a", "&x"}, {"ACL", "SETUSER", "a", "+nosuch"}, {"ACL", "SETUSER", "a", "+@nosuch"},
		{"ACL", "SETUSER", "a", "nonsense"}, {"ACL", "SETUSER", "a", ""}, {"ACL", "SETUSER", "a", "<wrong"}, {"ACL", "SETUSER", "a", "#123"}, {"ACL", "SETUSER", "a", "!123"},
		{"ACL", "SETUSER", "a", "+config|get|x"}, {"ACL", "SETUSER", "a", "-config|get|x"}, {"ACL", "SETUSER", "a", "+config|nosuch"}, {"ACL", "SETUSER", "a", "+select|"}, {"ACL", "SETUSER", "a", "-select|0"},
		{"ACL", "SETUSER", "a", "(+get", "~x)"}, {"ACL", "SETUSER", "a", "(+get ~y)"}, {"ACL", "SETUSER", "a", "(+get", "~x"}, {"ACL", "SETUSER", "a", "(nonsense)"}, {"ACL", "SETUSER", "a", "()"},
		{"ACL", "SETUSER", "a", "~with blank"}, {"ACL", "SETUSER", "a", "off", "+nosuch"}, {"ACL", "SETUSER", "a", "skip-sanitize-payload"}, {"ACL", "SETUSER", "a", ">with blank", "<pw"},
		{"ACL", "SETUSER", "with blank", "on"}, {"ACL", "SETUSER", "nul\x00", "on"}, {"ACL", "SETUSER"}, {"ACL", "SETUSER", "a", "nopass"}, {"ACL", "SETUSER", "a", "clearselectors"},
		{"ACL", "SETUSER", "b", "reset", "on", ">x", "+@all", "-@dangerous"}, {"ACL", "SETUSER", "b", "nocommands", "+get"}, {"ACL", "SETUSER", "a", "reset"},
		{"ACL", "DELUSER", "default"}, {"ACL", "DELUSER", "a", "default"}, {"ACL", "DELUSER"}, {"ACL", "DELUSER", "nosuch", "a"}, {"ACL", "DELUSER", "a"},
		{"ACL", "GENPASS", "0"}, {"ACL", "GENPASS", "4097"}, {"ACL", "GENPASS", "x"}, {"ACL", "GENPASS", "1", "2"}, {"ACL", "HELP"}, {"ACL", "HELP", "x"}, {"ACL", "NOSUCH"}, {"ACL"},
	} {
		if got, want := here.do(line...), there.do(line...); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if got, want := here.do("ACL", "LIST"), there.do("ACL", "LIST"); got != want {
			t.Fatalf("%q leaves %q, want %q", line, got, want)
		}
	}
	for _, bits := range []string{"", "1", "5", "4096"} {
		args := []string{"ACL", "GENPASS"}
		if bits != "" {
			args = append(args, bits)
		}
		if got, want := here.do(args...), there.do(args...); len(got) != len(want) || len(strings.Trim(got[strings.IndexByte(got, '\n')+1:], "0123456789abcdef")) != 2 {
			t.Errorf("%q: %q", args, got)
		}
	}
}

// TestChangedUsers: a client has the new rights of its user at once, also in scripts. A removed user's client is
// closed. One that listens is closed if its user loses a channel.
func TestChangedUsers(t *testing.T) {
	_, addr := start(t, engineURL(t))
	admin := dial(t, addr)
	admin.want("+OK\r\n", "ACL SETUSER app on >pw ~* &* +@all")
	app, listener := login(t, addr, "app"), login(t, addr, "app")
	app.want("+OK\r\n", "SET k v")
	listener.do("SUBSCRIBE", "news")
	admin.want("+OK\r\n", "ACL SETUSER app -set")
	if got := app.do("SET", "k", "x"); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("SET without the right: %q", got)
	}
	if got := app.do("EVAL", "return redis.call('SET','k','x')", "0"); !strings.Contains(got, "can't run this command") {
		t.Errorf("SET of a script without the right: %q", got)
	}
	admin.want("+OK\r\n", "ACL SETUSER app +@all off resetpass >new")
	app.want("+OK\r\n", "SET k x") // it stays logged in
	if got := dial(t, addr).do("AUTH", "app", "new"); !strings.HasPrefix(got, "-WRONGPASS") {
		t.Errorf("AUTH of a user that is off: %q", got)
	}
	admin.want(":1\r\n", "PUBLISH news x")
	listener.read()
	admin.want("+OK\r\n", "ACL SETUSER app resetchannels &other")
	listener.expectClosed()
	admin.want(":1\r\n", "ACL DELUSER app")
	app.expectClosed()
	// A command that is queued, or behind one that waits, doesn't run with the rights of before.
	admin.want("+OK\r\n", "ACL SETUSER app on >pw ~* &* +@all")
	queued, behind, alone := login(t, addr, "app"), login(t, addr, "app"), login(t, addr, "app")
	queued.want("+OK\r\n", "MULTI")
	queued.want("+QUEUED\r\n", "SET k late")
	behind.write("BLPOP list 0\r\nSET k late\r\n")
	alone.send("BLPOP", "other", "0")
	eventually(t, "they wait", func() bool {
		return strings.Count(admin.do("CLIENT", "LIST"), " cmd=blpop") == 2 || strings.Contains(admin.do("INFO", "clients"), "blocked_clients:2")
	})
	admin.want("+OK\r\n", "ACL SETUSER app -set")
	if got := queued.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
		t.Errorf("EXEC after the right was taken away: %q", got)
	}
	admin.want(":1\r\n", "RPUSH list x")
	admin.want(":1\r\n", "RPUSH other x")
	alone.expect("*2\r\n" + bulk("other") + bulk("x"))
	// A client that removes its own user has its reply, and runs nothing more.
	admin.want("+OK\r\n", "ACL SETUSER me on >pw ~* &* +@all")
	me := login(t, addr, "me")
	me.write("ACL DELUSER me\r\nSET k late\r\n")
	me.expect(":1\r\n")
	me.expectClosed()
	admin.want(bulk("x"), "GET k")
	admin.want("+OK\r\n", "MULTI")
	if got := admin.do("ACL", "SETUSER", "late"); !strings.HasPrefix(got, "-ERR redoubt: ACL SETUSER is not supported inside a transaction") {
		t.Errorf("ACL SETUSER in MULTI: %q", got)
	}
	admin.want("+OK\r\n", "DISCARD")
	if got := admin.do("ACL", "USERS"); strings.Contains(got, "late") {
		t.Errorf("ACL USERS: %q", got)
	}
	// The default user, too.
	admin.want("+OK\r\n", "ACL SETUSER default resetpass >secret")
	if got := dial(t, addr).do("PING"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("PING before AUTH: %q", got)
	}
	admin.want("+PONG\r\n", "PING")
}

// TestUserFile: ACL SAVE writes the users to their file, and ACL LOAD reads it. A wrong file changes nothing.
func TestUserFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, []byte("user default on nopass ~* &* +@all\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, addr := start(t, engineURL(t), func(o *server.Options) { o.UserFile = file })
	admin := dial(t, addr)
	admin.want("+OK\r\n", "ACL SETUSER app on >pw ~a* &* +@all (~s +get)")
	list := admin.do("ACL", "LIST")
	admin.want("+OK\r\n", "ACL SAVE")
	if is, err := os.Stat(file); err != nil || is.Mode().Perm() != 0o640 {
		t.Errorf("the file: %v, %v", is, err)
	}
	if left, err := filepath.Glob(file + ".*"); len(left) > 0 || err != nil {
		t.Errorf("left beside it: %q, %v", left, err)
	}
	app := login(t, addr, "app")
	admin.want("+OK\r\n", "ACL SETUSER other on")
	admin.want("+OK\r\n", "ACL LOAD")
	if got := admin.do("ACL", "LIST"); got != list {
		t.Errorf("after ACL LOAD: %q, want %q", got, list)
	}
	app.want("+OK\r\n", "SET a x") // its user is the same
	if err := os.WriteFile(file, []byte("user app nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := admin.do("ACL", "LOAD"); !strings.HasPrefix(got, "-ERR "+file+":1: user \"app\": rule 1 is unknown") {
		t.Errorf("ACL LOAD of a wrong file: %q", got)
	}
	if got := admin.do("ACL", "LIST"); got != list {
		t.Errorf("after a wrong file: %q, want %q", got, list)
	}
	// With a password from the settings the file could not be read back.
	_, addr = start(t, engineURL(t), func(o *server.Options) { o.UserFile, o.Password = file, "pw" })
	w := dial(t, addr)
	w.want("+OK\r\n", "AUTH pw")
	if got := w.do("ACL", "SAVE"); !strings.HasPrefix(got, "-ERR the user 'default' has its password from the server's settings") {
		t.Errorf("ACL SAVE with a password: %q", got)
	}
	_, addr = start(t, engineURL(t))
	for _, sub := range []string{"LOAD", "SAVE"} {
		if got := dial(t, addr).do("ACL", sub); !strings.HasPrefix(got, "-ERR This Redis instance is not configured to use an ACL file") {
			t.Errorf("ACL %s: %q", sub, got)
		}
	}
}

// TestAuthInTransaction: on the engine AUTH can stand in a transaction, and counts in INFO, as in a real server. The
// client is another user from EXEC on.
func TestAuthInTransaction(t *testing.T) {
	users := map[string]string{"default": "on nopass ~* &* +@all", "app": "on >pw ~a* +@all"}
	real := redistest.Start(t)
	dial(t, real.Addr()).want("+OK\r\n", "ACL SETUSER app "+users["app"])
	_, engine := start(t, engineURL(t), func(o *server.Options) { o.Users = users })
	counts := regexp.MustCompile(`errorstat_\w+:count=\d+|cmdstat_(exec:calls=\d+|(auth|set|acl\|whoami):.*)`)
	times := regexp.MustCompile(`usec.*?,rej`)
	talk := func(addr string) (replies []string) {
		w := dial(t, addr)
		for _, line := range []string{
			"CONFIG RESETSTAT", "AUTH x", "AUTH app wrong", "AUTH app pw more",
			"MULTI", "SET a 1", "AUTH x", "AUTH nobody x", "AUTH app pw", "AUTH app pw more", "SET b 2", "EXEC", "ACL WHOAMI", "SET b 3", "SET a 4",
			"MULTI", "AUTH default any", "DISCARD", "ACL WHOAMI", "MULTI", "AUTH default any", "SET a", "EXEC", "ACL WHOAMI",
			"MULTI", "AUTH default any", "EXEC", "ACL WHOAMI", "GET b",
		} {
			replies = append(replies, line+": "+w.do(words(t, line)...))
		}
		for _, section := range []string{"errorstats", "commandstats"} {
			lines := counts.FindAllString(w.do("INFO", section), -1)
			slices.Sort(lines)
			for _, l := range lines {
				replies = append(replies, times.ReplaceAllString(l, "rej"))
			}
		}
		return replies
	}
	got, want := talk(engine), talk(real.Addr())
	if !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("got %q, want %q", got[min(i, len(got)-1)], want[i])
			}
		}
	}
}

// TestACLLogLen: acllog-max-len bounds ACL LOG.
func TestACLLogLen(t *testing.T) {
	_, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Users = map[string]string{"default": "on nopass ~* &* +@all", "app": "on >pw ~a* +@all"}
	})
	w := dial(t, addr)
	w.want("+OK\r\n", "CONFIG SET acllog-max-len 3")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.do("AUTH", name, "wrong")
	}
	if got := w.do("ACL", "LOG", "100"); !strings.HasPrefix(got, "*3\r\n") {
		t.Errorf("got %.40q", got)
	}
}
