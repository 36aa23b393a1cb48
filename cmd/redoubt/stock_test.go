//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestStock(t *testing.T) {
	check := func(t *testing.T, url string) {
		t.Helper()
		var s itemState
		item := func(verb string, args ...string) itemState {
			t.Helper()
			asJSON(t, &s, append([]string{"stock", verb, "--backend", url, "--json"}, args...)...)
			return s
		}
		if got := item("set", "sku:42", "100"); got != (itemState{Name: "sku:42", Total: 100, Available: 100}) {
			t.Errorf("set: %+v", got)
		}
		if got := item("add", "sku:42", "20"); got.Total != 120 || got.Available != 120 {
			t.Errorf("add: %+v", got)
		}
		if got := item("add", "sku:42", "--", "-50"); got.Total != 70 || got.Available != 70 {
			t.Errorf("add -50: %+v", got)
		}
		item("set", "other", "1")
		code, _, stderr := runToEnd(t, nil, "stock", "add", "--backend", url, "sku:42", "--", "-71")
		if code != exitFault || !strings.Contains(stderr, `item "sku:42": stock: fewer units are available than would be taken away: 70 available`) {
			t.Errorf("below zero: exit %d, %q", code, stderr)
		}
		code, _, stderr = runToEnd(t, nil, "stock", "add", "--backend", url, "sku:42", "1000000000000000")
		if code != exitFault || !strings.Contains(stderr, "there would be too many units") {
			t.Errorf("too many: exit %d, %q", code, stderr)
		}
		if got := item("info", "sku:42"); got != (itemState{Name: "sku:42", Total: 70, Available: 70}) {
			t.Errorf("info: %+v", got)
		}
		code, table, _ := runToEnd(t, nil, "stock", "ls", "--backend", url)
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if code != 0 || len(rows) != 3 || !strings.HasPrefix(rows[1], "other ") || !strings.HasPrefix(rows[2], "sku:42 ") {
			t.Errorf("ls: exit %d\n%s", code, table)
		}
		var states []itemState
		asJSON(t, &states, "stock", "ls", "--backend", url, "--json", "--match", "s*")
		if len(states) != 1 || states[0] != s {
			t.Errorf("ls --match: %+v, want %+v", states, s)
		}
		if code, _, stderr := runToEnd(t, nil, "stock", "info", "--backend", url, "}"); code != exitUsage {
			t.Errorf("a bad name: exit %d, %q", code, stderr)
		}
		conn, err := goredis.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if r := conn.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"rd:{text}:stock"}, Args: []string{"x"}}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if code, _, stderr := runToEnd(t, nil, "stock", "info", "--backend", url, "text"); code != exitData || !strings.Contains(stderr, `item "text": the key has another type`) {
			t.Errorf("a key of another type: exit %d, %q", code, stderr)
		}
	}
	eachServer(t, check)
	t.Run("cluster", func(t *testing.T) { check(t, redistest.StartCluster(t, 3, 0).URL()) })
}
