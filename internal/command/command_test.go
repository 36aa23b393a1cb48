package command_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// The documentation in the repository is what the table says now.
func TestDocumentationIsCurrent(t *testing.T) {
	pages := command.Pages()
	for name, want := range pages {
		if got, err := os.ReadFile("../../docs/" + name); err != nil || string(got) != want {
			t.Errorf("docs/%s is out of date: run go generate ./internal/command (%v)", name, err)
		}
	}
	files, err := os.ReadDir("../../docs/commands")
	if err != nil || len(files) != len(pages)-1 {
		t.Errorf("docs/commands has %d files, %v; want one for each family, %d", len(files), err, len(pages)-1)
	}
	for _, c := range command.All() {
		if !strings.Contains(pages["commands.md"], "["+c.Name+"](commands/") {
			t.Errorf("docs/commands.md lacks %s: its group has no family", c.Name)
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	scripts := make(map[string]bool)
	for _, s := range command.Scripts() {
		scripts[s.Name()] = true
	}
	if len(scripts) != len(command.Scripts()) {
		t.Error("two scripts have one name")
	}
	seen := make(map[string]bool)
	for _, c := range command.All() {
		if seen[c.Name] || c.Name != strings.ToUpper(c.Name) {
			t.Errorf("%s: declared twice, or not in capitals", c.Name)
		}
		seen[c.Name] = true
		if c.Summary == "" || c.Since == "" || c.Group == "" || c.Complexity == "" || c.Reply == "" || len(c.Flags) == 0 || len(c.Examples) == 0 || c.Plan == nil || c.Arity == 0 {
			t.Errorf("%s: incomplete", c.Name)
		}
		for _, a := range c.Args {
			if a.Summary == "" && len(a.Args) == 0 {
				t.Errorf("%s: argument %s has no summary", c.Name, a.Name)
			}
		}
		for i, e := range c.Examples {
			if !strings.HasPrefix(e.Call, c.Name+" ") || c.CheckArity(len(strings.Fields(e.Call))) != "" {
				t.Errorf("%s: example %d is not a call of it", c.Name, i)
			}
		}
		if command.Lookup(strings.ToLower(c.Name)) != c {
			t.Errorf("%s: not found by its name", c.Name)
		}
		for _, p := range []resp.Protocol{resp.RESP2, resp.RESP3} {
			info := c.AppendInfo(nil, p)
			if v, n, err := resp.Parse(info); err != nil || n != len(info) || len(v.([]any)) != 10 {
				t.Errorf("%s: COMMAND INFO %q: %v", c.Name, info, err)
			}
			docs := resp.AppendMap(nil, p, 1)
			docs = c.AppendDocs(docs, p)
			if _, n, err := resp.Parse(docs); err != nil || n != len(docs) {
				t.Errorf("%s: COMMAND DOCS %q: %v", c.Name, docs, err)
			}
		}
	}
}

// Every error that a command gives is documented, and every error that is
// documented is given.
func TestErrorsAreDocumented(t *testing.T) {
	long := strings.Repeat("x", 1000)
	// Faulty arguments to each command.
	faulty := map[string][][]string{
		"CL.THROTTLE": {
			{"k"}, {"k", "a", "1", "1"}, {"k", "1", "0", "1"}, {"k", "1", "-1", "1"},
			{"k", "9223372036854775806", "1", "3600"},
		},
		"LIMIT.TAKE": {
			{"}", "1", "1", "1", "1"}, {"n", "x", "1", "1", "1"}, {"n", "-1", "1", "1", "1"}, {"n", "1", "1", "1", "1", "1"},
			{"n", "1", "1", "1", "x"}, {"n", "1", "0", "1", "1"}, {"n", "1", "1", "0", "1"}, {"n", "1", "1", "1", "0"}, {"n", "1", "1", "1", "-1"},
			slices.Concat([]string{"n", "1"}, slices.Repeat([]string{"1", "1", "1"}, 9)),
		},
		"LIMIT.WINDOW":  {{"}", "1", "1", "1"}, {"n", "-1", "1", "1"}, {"n", "x", "1", "1"}, {"n", "1", "1", "1", "1"}, {"n", "1", "0", "1"}, {"n", "1", "100001", "1"}},
		"LIMIT.QUOTA":   {{"}", "1", "1", "DAY", "UTC"}, {"n", "-1", "1", "DAY", "UTC"}, {"n", "1", "x", "DAY", "UTC"}, {"n", "1", "0", "DAY", "UTC"}, {"n", "1", "1", "EON", "UTC"}, {"n", "1", "1", "DAY", "Mars/Phobos"}},
		"LIMIT.RESERVE": {{"}", "1", "1", "1", "1"}, {"n", "0", "1", "1", "1"}, {"n", "1", "MAX", "-1", "1", "1", "1"}, {"n", "1", "MAX", "x", "1", "1", "1"}, {"n", "1", "MAX", "1"}, {"n", "1", "0", "1", "1"}},
		"LIMIT.CANCEL":  {{"n", ""}, {"n", "x:1:1:1:1:1760007200000000000:"}, {"n", "x:1:1:1:1:1"}, {"}", "x:1:1:1:1:1760007200000000000"}},
		"LIMIT.WAIT":    {{"}", "1", "1", "1", "1"}, {"n", "0", "1", "1", "1"}, {"n", "1", "MAX", "-1", "1", "1", "1"}, {"n", "1", "MAX", "x", "1", "1", "1"}, {"n", "1", "MAX", "1"}, {"n", "1", "0", "1", "1"}},
		"LIMIT.PEEK":    {{"}"}, {"n", "1"}, {"n", "1", "x", "1"}, {"n", "1", "1", "0"}},
		"LIMIT.RESET":   {{"}"}},
		"LIMIT.REFUND":  {{"}", "1", ""}, {"n", "0", "id"}, {"n", "x", "id"}, {"n", "1", long}, {"n", "1", "id", "1"}, {"n", "1", "id", "1", "1", "0"}},
		"LIMIT.DEFINE":  {{"}"}, {"n", "NX"}, {"n", "1", "x", "1"}, {"n", "1", "1", "0"}},
		"LIMIT.USE":     {{"}", "1"}, {"n", "-1"}, {"n", "x"}, {"n", "4503599627370497"}},
		"LOCK.ACQUIRE": {
			{"}", "1"}, {"n", "x"}, {"n", "0"}, {"n", "1", "BLOCK"}, {"n", "1", "BLOCK", "x"}, {"n", "1", "BLOCK", "-1"},
			{"n", "1", "ID", ""}, {"n", "1", "OWNER", long}, {"n", "1", "LABEL", long}, {"n", "1", "NONE", "x"},
			{"n", "1", "SHARED", "SHARED"}, {"n", "1", "FAIR", "SHARED"},
		},
		"LOCK.EXTEND":  {{"}", "id", "1"}, {"n", "id", "x"}, {"n", "id", "0"}, {"n", "", "1"}},
		"LOCK.RELEASE": {{"}", "id"}, {"n", ""}},
		"LOCK.INFO":    {{"}"}, {long}},
		"LOCK.FORCE":   {{"}", "1"}, {"n", "x"}, {"n", "0"}},
		"LOCK.LS":      {{"MATCH"}, {"MATCH", "a", "MATCH", "b"}, {"CURSOR"}, {"COUNT", "1"}},
		"SEM.ACQUIRE": {
			{"}", "1", "1"}, {"n", "x", "1"}, {"n", "0", "1"}, {"n", "1000001", "1"}, {"n", "1", "x"}, {"n", "1", "0"},
			{"n", "1", "1", "BLOCK"}, {"n", "1", "1", "BLOCK", "x"}, {"n", "1", "1", "BLOCK", "-1"}, {"n", "1", "1", "ID", ""},
			{"n", "1", "1", "OWNER", long}, {"n", "1", "1", "LABEL", long}, {"n", "1", "1", "SHARED"},
		},
		"SEM.EXTEND":  {{"}", "id", "1"}, {"n", "id", "x"}, {"n", "id", "0"}, {"n", "", "1"}},
		"SEM.RELEASE": {{"}", "id"}, {"n", ""}},
		"SEM.INFO":    {{"}"}, {long}},
		"SEM.FORCE":   {{"}", "1"}, {"n", "x"}, {"n", "-1"}},
		"SEM.LS":      {{"CURSOR", "0", "CURSOR", "0"}},

		"FENCE.DO": {
			{"}", "1"}, {"n", "x"}, {"n", "0"}, {"n", "1", "SET"}, {"n", "1", "", "k"}, {"n", "1", " ", "k"},
			slices.Concat([]string{"n", "1", "DEL"}, make([]string, 4000)),
		},
		"QUEUE.PUT": {
			{"}", "x"}, {"n", "x", "ID"}, {"n", "x", "ID", ""}, {"n", "x", "ID", long}, {"n", "x", "DELAY", "1", "AT", "1"}, {"n", "x", "DELAY", "-1"},
			{"n", "x", "DELAY", "y"}, {"n", "x", "AT", "-1"}, {"n", "x", "ATTEMPTS", "0"}, {"n", "x", "ATTEMPTS", "y"}, {"n", "x", "LANE", "3"},
			{"n", "x", "GROUP", ""}, {"n", "x", "UNIQUE", "k"}, {"n", "x", "UNIQUE", "", "1"}, {"n", "x", "UNIQUE", "k", "0"},
			{"n", "x", "LANE", "1", "lane", "1"}, {"n", "x", "NONE", "1"}, {"n", strings.Repeat("x", 4<<20+1)},
			{"n", "x", "HEADERS", "0"}, {"n", "x", "HEADERS", "2", "a", "1", "a", "1"}, {"n", "x", "HEADERS", "1", "a", strings.Repeat("x", 65536)},
			{"n", "x", "AFTER", "0"}, {"n", "x", "AFTER", "1"}, {"n", "x", "AFTER", "1", ""}, {"n", "x", "AFTER", "2", "a", "a"}, {"n", "x", "IGNOREFAILURE"},
		},
		"QUEUE.TAKE": {
			{"}", "1", "1"}, {"n", "x", "1"}, {"n", "0", "1"}, {"n", "1001", "1"}, {"n", "1", "0"}, {"n", "1", "1", "BLOCK"}, {"n", "1", "1", "BLOCK", "-1"},
			{"n", "1", "1", "ID", ""}, {"n", "1", "1", "ID", "a", "ID", "b"}, {"n", "1", "1", "BLOCK", "0", "BLOCK", "0"}, {"n", "1", "1", "NONE", "1"},
			{"n", "1", "1", "WITHHEADERS", "WITHHEADERS"},
		},
		"QUEUE.ACK": {
			{"n", strings.Repeat("x", 17), "RESULT", "1"}, {"n", strings.Repeat("x", 17), "RESULT", "x", "v"}, {"n", strings.Repeat("x", 17), "RESULT", "0", "v"},
			{"n", strings.Repeat("x", 17), "RESULT", "1", strings.Repeat("v", 4<<20+1)}, {"n", strings.Repeat("x", 17), strings.Repeat("x", 17), "RESULT", "1", "v"},
			{"}", strings.Repeat("x", 17)}, {"n", "x"}, slices.Concat([]string{"n"}, slices.Repeat([]string{strings.Repeat("x", 17)}, 1001)),
		},
		"QUEUE.PROGRESS": {{"}", strings.Repeat("x", 17), "n"}, {"n", "x", "n"}, {"n", strings.Repeat("x", 17), strings.Repeat("x", 4097)}},
		"QUEUE.NACK": {
			{"}", strings.Repeat("x", 17)}, {"n", long}, {"n", strings.Repeat("x", 17), "DELAY"}, {"n", strings.Repeat("x", 17), "DELAY", "-1"}, {"n", strings.Repeat("x", 17), "DELAY", "y"},
			{"n", strings.Repeat("x", 17), "DEAD", "DELAY", "1"}, {"n", strings.Repeat("x", 17), "DEAD", "SNOOZE"}, {"n", strings.Repeat("x", 17), "SNOOZE", "DEAD"},
			{"n", strings.Repeat("x", 17), "REASON", strings.Repeat("x", 1025)}, {"n", strings.Repeat("x", 17), "REASON", "a", "REASON", "b"},
		},
		"QUEUE.EXTEND":   {{"}", strings.Repeat("x", 17), "1"}, {"n", "x", "1"}, {"n", strings.Repeat("x", 17), "0"}, {"n", strings.Repeat("x", 17), "y"}},
		"QUEUE.CANCEL":   {{"}", "x"}, {"n", ""}, {"n", "x", long}, slices.Concat([]string{"n"}, slices.Repeat([]string{"x"}, 1001))},
		"QUEUE.REQUEUE":  {{"}", "x"}, {"n", ""}, slices.Concat([]string{"n"}, slices.Repeat([]string{"x"}, 1001))},
		"QUEUE.DELETE":   {{"}", "x"}, {"n", ""}, slices.Concat([]string{"n"}, slices.Repeat([]string{"x"}, 1001))},
		"QUEUE.DEAD":     {{"}", "1"}, {"n", "x"}, {"n", "0"}, {"n", "1", "FROM"}, {"n", "1", "FROM", "-1"}, {"n", "1", "NONE", "1"}},
		"QUEUE.MESSAGES": {{"}", "DUE", "1"}, {"n", "DONE", "1"}, {"n", "DUE", "x"}, {"n", "DUE", "0"}, {"n", "DUE", "1", "FROM"}, {"n", "DUE", "1", "FROM", "-1"}},
		"QUEUE.FIND":     {{"}", "x"}, {"n", ""}},
		"QUEUE.STATS":    {{"}"}},
		"QUEUE.LS":       {{"NONE", "x"}},
		"QUEUE.PAUSE":    {{"}"}, {"}", "SCHEDULE", "x"}, {"n", "SCHEDULE"}, {"n", "NONE", "x"}},
		"QUEUE.RESUME":   {{"}"}, {"}", "SCHEDULE", "x"}, {"n", "SCHEDULE"}, {"n", "NONE", "x"}},
		"QUEUE.SCHEDULE": {
			{"}", "s", "x", "CRON", "@daily"}, {"n", "", "x", "CRON", "@daily"}, {"n", long, "x", "CRON", "@daily"}, {"n", "s", "x", "CRON", "* *"}, {"n", "s", "x", "CRON", "60 * * * *"},
			{"n", "s", "x", "CRON", "0 0 30 2 *"}, {"n", "s", "x", "CRON"}, {"n", "s", "x", "LANE", "1"}, {"n", "s", "x", "CRON", "@daily", "EVERY", "1000"}, {"n", "s", "x", "CRON", "@daily", "CRON", "@daily"},
			{"n", "s", "x", "EVERY", "999"}, {"n", "s", "x", "EVERY", "y"}, {"n", "s", "x", "EVERY", "1000", "TZ", "UTC"}, {"n", "s", "x", "CRON", "@daily", "TZ", "Mars/Phobos"},
			{"n", "s", "x", "CRON", "@daily", "CATCHUP", "some"}, {"n", "s", "x", "CRON", "@daily", "START", "0"}, {"n", "s", "x", "CRON", "@daily", "END", "-1"},
			{"n", "s", "x", "CRON", "@yearly", "START", "1767312000000", "END", "1767312000001"}, {"n", "s", "x", "CRON", "@daily", "LIMIT", "0"}, {"n", "s", "x", "CRON", "@daily", "ATTEMPTS", "0"},
			{"n", "s", "x", "CRON", "@daily", "LANE", "3"}, {"n", "s", "x", "CRON", "@daily", "GROUP", ""}, {"n", "s", strings.Repeat("x", 1<<16), "CRON", "@daily"},
			{"n", "s", "x", "CRON", "@daily", "HEADERS", "0"}, {"n", "s", "x", "CRON", "@daily", "HEADERS", "1", "a"}, {"n", "s", "x", "CRON", "@daily", "HEADERS", "2", "a", "1", "a", "1"},
			{"n", "s", "x", "CRON", "@daily", "HEADERS", "1", "a", "1", "HEADERS", "1", "b", "1"}, {"n", "s", "x", "CRON", "@daily", "HEADERS", "1", "a", strings.Repeat("x", 1<<16)},
		},
		"QUEUE.SCHEDULES":  {{"}", "1"}, {"n", "x"}, {"n", "0"}, {"n", "1", "FROM"}, {"n", "1", "FROM", "-1"}, {"n", "1", "NONE", "1"}},
		"QUEUE.UNSCHEDULE": {{"}", "x"}, slices.Concat([]string{"n"}, slices.Repeat([]string{"x"}, 1001))},
		"QUEUE.LIMIT": {
			{"}", "NONE"}, {"n", "x"}, {"n", "NONE", "1"}, {"n", "CONCURRENCY", "0"}, {"n", "CONCURRENCY", "x"}, {"n", "RATE", "1"}, {"n", "RATE", "0", "1"}, {"n", "RATE", "1", "0"},
			{"n", "BURST", "1"}, {"n", "RATE", "1", "1", "BURST", "0"}, {"n", "RATE", "10000", "1"}, {"n", "CONCURRENCY", "1", "CONCURRENCY", "1"},
		},

		"STOCK.SET": {{"}", "1"}, {"n", "x"}, {"n", "-1"}},
		"STOCK.ADD": {{"}", "1"}, {"n", "1.5"}, {"n", "1000000000000001"}},
		"STOCK.RESERVE": {
			{"}", "1", "1"}, {"n", "x", "1"}, {"n", "1", "x"}, {"n", "0", "1"}, {"n", "1", "0"}, {"n", "1", "1", "ID"},
			{"n", "1", "1", "NONE", "x"}, {"n", "1", "1", "ID", ""}, {"n", "1", "1", "ID", long},
		},
		"STOCK.COMMIT": {{"}", "x"}, {"n", ""}},
		"STOCK.CANCEL": {{"}", "x"}, {"n", long}},
		"STOCK.INFO":   {{"}"}},
		"STOCK.LS":     {{"NONE", "x"}},

		"GEOIDX.ADD": {
			{"}", "1", "1", "m"}, {"n", "x", "1", "m"}, {"n", "1", "NaN", "m"}, {"n", "181", "1", "m"}, {"n", "1", "-91", "m"}, {"n", "1", "1", ""},
			{"n", "1", "1", long}, {"n", "XX", "1", "1"}, {"n", "1", "1", "m", "1"},
		},
		"GEOIDX.REM":  {{"}", "m"}, {"n", "m", ""}},
		"GEOIDX.POS":  {{"}", "m"}, {"n", "m", long}},
		"GEOIDX.DIST": {{"}", "a", "b"}, {"n", "a", ""}, {"n", "a", "b", "INCH"}, {"n", "a", "b", "M", "M"}},
		"GEOIDX.NEAR": {
			{"}", "FROMMEMBER", "m", "BYRADIUS", "1", "M"}, {"n", "FROMMEMBER", "", "BYRADIUS", "1", "M"}, {"n", "FROMMEMBER", "m", "BYRADIUS", "x", "M"},
			{"n", "FROMMEMBER", "m", "BYRADIUS", "1", "INCH"}, {"n", "FROMMEMBER", "m", "BYRADIUS", "0", "M"}, {"n", "FROMMEMBER", "m", "BYRADIUS", "-1", "M"},
			{"n", "FROMMEMBER", "m", "FROMMEMBER", "m", "BYRADIUS", "1", "M"}, {"n", "FROMMEMBER", "m", "BYBOX", "1", "M"},
			{"n", "FROMMEMBER", "m", "BYBOX", "1", "0", "M"}, {"n", "FROMMEMBER", "m", "BYRADIUS", "1", "M", "COUNT"},
			{"n", "FROMMEMBER", "m", "BYRADIUS", "1", "M", "COUNT", "0"}, {"n", "FROMMEMBER", "m", "BYRADIUS", "1", "M", "ASC", "DESC"},
			{"n", "FROMMEMBER", "m", "BYRADIUS", "1", "M", "BYBOX", "1", "1", "M"}, {"n", "FROMLONLAT", "200", "0", "BYRADIUS", "1", "M"},
			{"n", "FROMLONLAT", "x", "0", "BYRADIUS", "1", "M"}, {"n", "FROMLONLAT", "0", "0", "WITHDIST", "WITHCOORD"}, {"n", "FROMLONLAT", "0", "0", "STORE", "x"},
		},

		"BF.RESERVE": {
			{"k", "0.1", "1", "2", "3", "4", "5"}, {"k", "x", "1"}, {"k", "1", "1"}, {"k", "0.1", "x"}, {"k", "0.1", "0"}, {"k", "0.1", "1", "EXPANSION"},
			{"k", "0.1", "1", "EXPANSION", "x"}, {"k", "0.1", "1", "EXPANSION", "-1"}, {"k", "0.1", "1", "EXPANSION", "1", "NONSCALING"},
			{"k", "0.000000001", "1073741824"},
		},
		"BF.INSERT": {
			{"k", "NOCREATE", "ITEMS"}, {"k", "CAPACITY", "0", "ITEMS", "x"}, {"k", "ERROR", "1", "ITEMS", "x"}, {"k", "EXPANSION", "-1", "ITEMS", "x"},
			{"k", "DONTEXIST", "ITEMS", "x"}, {"k", "ERROR", "0.000000001", "CAPACITY", "1073741824", "ITEMS", "x"},
		},
		"BF.INFO": {{"k", "ITEMS", "x"}},

		"TTLHASH.SET": {
			{"}", "f", "v", "1"}, {"n", "f", "v", "x"}, {"n", "f", "v", "0"}, {"n", "f", "v", "-2"}, {"n", "f", "v", "3153600000001"}, {"n", long + long, "v", "1"},
			{"n", "f", "v", "1", "GT"}, {"n", "f", "v", "1", "NX", "XX"}, {"n", "f", strings.Repeat("v", 1<<20+1), "1"},
		},
		"TTLHASH.GET":    {{"}", "f"}, {"n", long + long}},
		"TTLHASH.MGET":   {{"}", "f"}, {"n", long + long}, slices.Concat([]string{"n"}, make([]string, 129))},
		"TTLHASH.TTL":    {{"}", "f"}, {"n", long + long}, slices.Concat([]string{"n"}, make([]string, 129))},
		"TTLHASH.EXPIRE": {{"}", "f", "1"}, {"n", "f", "x"}, {"n", "f", "0"}, {"n", long + long, "1"}, {"n", "f", "1", "YX"}, {"n", "f", "1", "NX", "GT"}},
		"TTLHASH.DEL":    {{"}", "f"}, {"n", long + long}, slices.Concat([]string{"n"}, make([]string, 129))},
		"TTLHASH.LEN":    {{"}"}},
		"TTLHASH.SWEEP":  {{"}"}},
		"TTLHASH.SCAN":   {{"}", "0"}, {"n", "x"}, {"n", "0", "MATCH"}, {"n", "0", "COUNT", "x"}, {"n", "0", "COUNT", "0"}, {"n", "0", "NONE", "1"}},
		"BF.LOADCHUNK":   {{"k", "x", "y"}},
	}
	// Errors that the arguments alone don't show.
	later := []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR redoubt: this ID is over: it acquired before",
		"ERR redoubt: this works in the back end's own database only: SELECT it",
		"ERR redoubt: the server is shutting down",
		"ERR redoubt: LOCK.LS takes several steps and has no place in a transaction",
		"ERR redoubt: no such schedule: \"x\"",
		"ERR redoubt: a queue has at most 1000 schedules",
		"ERR redoubt: a change of a schedule takes several steps and has no place in a transaction",
		"ERR redoubt: invalid pattern: \"[\" has a [ without a ]",
		"ERR redoubt: invalid cursor: \"x\"; want 0, or what the page before gave",
		"ERR redoubt: no such member: \"m\"",
		"ERR redoubt: only 1 are available, with 2 reserved and 3 sold",
		"ERR redoubt: there would be more than 1000000000000000",
		"ERR redoubt: this ID has reserved 3, not 2",
		"NOTCONFIGURED redoubt: no limit is defined under this name",
		"TRYAGAIN redoubt: the server's clock is days from the clock here: ask again",
		"ERR redoubt: the key holds no log of calls",
		"ERR redoubt: these fields have more than 2 MiB together: ask for fewer",
		"ERR redoubt: these fields have more than 1 MiB together: name fewer",
		"ERR redoubt: these messages have more than 2 MiB together: settle fewer at a time",
		"ERR redoubt: these messages hold up the server when they are one step, as inside MULTI and in another database than its own: name fewer",
		"ERR redoubt: more than 4000 messages are running, or wait in one group: a message is not looked for among them in one step, as inside MULTI and in another database than its own",
		"ERR redoubt: more than 4000 messages are running: one is not looked for among them in one step",
		"TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: put it again",
		"TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: requeue it again",
		"ERR redoubt: the key holds no quota",
		"ERR item exists",
		"ERR not found",
		"ERR non scaling filter is full",
		"ERR problem inserting into filter",
		"ERR received bad data",
		"ERR invalid offset - no link found",
		"ERR invalid chunk - Too big for current filter",
		"Invalid information value",
		"Second argument must be numeric",
		"ERR redoubt: the filter would take more than 512 MB, or have more than 10000 links",
		"ERR redoubt: so many items hold up the server when they are one step, as inside MULTI and in another database than its own: send fewer",
		"ERR redoubt: a part of more than 2 MiB holds up the server when it is written in one step, as inside MULTI and in another database than its own",
		"ERR redoubt: the dump is of a filter from before RedisBloom 1.1",
		"STALE redoubt: the token is 1, and 2 has been seen",
		"TRYAGAIN redoubt: more than 512 reservations have run out and come back step by step; repeat the command",
	}
	client, err := redoubt.New(deaf{}, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env, err := command.NewEnv(client)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range command.All() {
		given := slices.Clone(later)
		for _, words := range faulty[c.Name] {
			args := [][]byte{[]byte(c.Name)}
			for _, w := range words {
				args = append(args, []byte(w))
			}
			text := c.Plan(env, args).Err
			if text == "" {
				t.Errorf("%s %q gives no error", c.Name, words)
				continue
			}
			given = append(given, text)
			if !slices.ContainsFunc(c.Errors, func(e string) bool { return documents(e, text) }) {
				t.Errorf("%s %.60q: %q is not documented", c.Name, words, text)
			}
		}
		for _, e := range c.Errors {
			if !slices.ContainsFunc(given, func(text string) bool { return documents(e, text) }) {
				t.Errorf("%s documents %s, and nothing here gives it", c.Name, e)
			}
		}
	}
}

// documents reports whether an entry of Command.Errors, like
// "`ERR n is …; want 1`: the cause", is about an error with this text.
func documents(entry, text string) bool {
	_, entry, _ = strings.Cut(entry, "`")
	entry, _, _ = strings.Cut(entry, "`")
	pattern := strings.ReplaceAll(regexp.QuoteMeta(entry), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(text)
}

type deaf struct{ redoubt.Conn }

func (deaf) Do(context.Context, redoubt.Cmd) redoubt.Reply {
	return redoubt.Reply{Err: redoubt.ErrClosed}
}

// FuzzPlan: whatever the arguments, there is a plan and no panic, and what is
// refused is refused with an error that fits one line.
func FuzzPlan(f *testing.F) {
	f.Add(0, "k 15 30 60 1")
	f.Add(1, "name 1000 BLOCK 0 ID x LABEL y")
	f.Add(2, "name id 1000")
	f.Add(3, "name id")
	f.Add(4, "name")
	f.Add(5, "name 1")
	f.Add(7, "name 1 1000 ID x")
	f.Add(29, "name payload DELAY 1000 UNIQUE key 1000 LANE 1 GROUP g")
	f.Add(30, "name 10 1000 BLOCK 0 ID x")
	f.Add(32, "name receipt-receipt-receipt SNOOZE DELAY 5 REASON x")
	f.Add(45, "name CONCURRENCY 1 RATE 1 1000 BURST 2")
	client, err := redoubt.New(deaf{}, redoubt.Options{})
	if err != nil {
		f.Fatal(err)
	}
	env, err := command.NewEnv(client)
	if err != nil {
		f.Fatal(err)
	}
	table := command.All()
	f.Fuzz(func(t *testing.T, which int, line string) {
		c := table[((which%len(table))+len(table))%len(table)]
		args := [][]byte{[]byte(c.Name)}
		for w := range strings.SplitSeq(line, " ") {
			args = append(args, []byte(w))
		}
		if c.CheckArity(len(args)) != "" {
			return
		}
		p := c.Plan(env, args)
		set := 0
		for _, is := range []bool{p.Err != "", p.Cmd != nil, p.Wait != nil} {
			if is {
				set++
			}
		}
		if set != 1 || p.Cmd != nil && p.Translate == nil || p.Wait != nil && p.Instead == nil {
			t.Fatalf("%q: plan %+v", line, p)
		}
		if p.Cmd != nil {
			for _, r := range []redoubt.Reply{{}, {Val: int64(1)}, {Val: []any{int64(1), int64(2), int64(3), int64(4), "x"}}, {Val: []any{nil, "x"}},
				{Val: []any{int64(0), int64(2), int64(3), int64(4), int64(5), int64(6)}}, {Val: []any{int64(0), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7)}}, {Err: redoubt.ServerError("WRONGTYPE x")}} {
				raw := p.Translate(nil, resp.RESP3, r)
				if _, n, err := resp.Parse(raw); err != nil || n != len(raw) {
					t.Fatalf("%q: reply %+v becomes %q: %v", line, r, raw, err)
				}
			}
		}
	})
}
