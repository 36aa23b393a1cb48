package engine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// processed is total_commands_processed of an answer to INFO.
func processed(t *testing.T, info string) int {
	t.Helper()
	_, after, _ := strings.Cut(info, "total_commands_processed:")
	digits, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("INFO: %q", info)
	}
	return n
}

// Whatever a command needs, a key, several, all or none, it is counted as Redis
// counts it.
func TestCommandsAreCountedAsByRedis(t *testing.T) {
	e := open(t, Options{})
	s, o := e.Session(), dialOracle(t, startOracle(t))
	ask := func(words ...string) (ours, theirs string) {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		return runScript(s, words...), string(o.do(args))
	}
	for _, c := range [][][]string{
		{{"PING"}},
		{{"SET", "k", "v"}},
		{{"MSET", "a", "1", "b", "2"}},
		{{"DBSIZE"}},
		{{"NOSUCH"}},
		{{"GET"}},
		{{"LPUSH", "k", "x"}},
		{{"MULTI"}, {"SET", "k", "v"}, {"GET", "a"}, {"EXEC"}},
		{{"MULTI"}, {"PING"}, {"DISCARD"}},
		{{"EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])", "1", "k"}},
		{{"EVAL", "return redis.call('PING')", "0"}},
		{{"BLPOP", "none", "0.01"}},
	} {
		ours0, theirs0 := ask("INFO", "stats")
		for _, words := range c {
			ask(words...)
		}
		ours1, theirs1 := ask("INFO", "stats")
		got, want := processed(t, ours1)-processed(t, ours0), processed(t, theirs1)-processed(t, theirs0)
		if got != want {
			t.Errorf("%s: counted as %d commands, by Redis as %d", fmt.Sprint(c), got, want)
		}
	}
	for _, words := range [][]string{{"CONFIG", "RESETSTAT"}, {"PING"}, {"GET", "k"}} {
		ask(words...)
	}
	ours, theirs := ask("INFO", "stats")
	if got, want := processed(t, ours), processed(t, theirs); got != want {
		t.Errorf("%d commands after a reset, by Redis %d", got, want)
	}
	if got := info(s, "rdb_changes_since_last_save:0"); got != nil {
		t.Error("a reset of statistics forgets what was changed")
	}
}

// A client with a cursor of SCAN learns from the run_id whether the cursor is still valid.
func TestRunID(t *testing.T) {
	id := func(e *Engine) string {
		_, after, _ := strings.Cut(runScript(e.Session(), "INFO", "server"), "run_id:")
		id, _, _ := strings.Cut(after, "\r\n")
		return id
	}
	one, other := open(t, Options{}), open(t, Options{})
	first, again, others := id(one), id(one), id(other)
	if len(first) != 40 || first != again || first == others {
		t.Errorf("run ids are %q, then %q, and of another %q; want 40 digits that stay, and differ", first, again, others)
	}
}

// TestInfoTellsWhatClientsHold: INFO has what the embedding program counts of its clients.
func TestInfoTellsWhatClientsHold(t *testing.T) {
	const fields = "mem_clients_normal:5\r\nmaxmemory_clients:7\r\n"
	for _, told := range []bool{true, false} {
		var opts Options
		if told {
			opts.ClientMemory = func() (held, limit int64) { return 5, 7 }
		}
		e, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if info := run(e.Session(), "INFO clients"); strings.Contains(info, fields) != told {
			t.Errorf("told: %t: INFO: %q", told, info)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
