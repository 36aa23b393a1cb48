package lock_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// checkList lists what is held, and nothing else.
func checkList(t *testing.T, c *redoubt.Client) {
	t.Helper()
	opts := lock.Options{TTL: time.Minute, Label: "me"}
	m, err := lock.New(c, opts)
	must(t, err)
	rw, err := lock.NewRWMutex(c, optionsOf[lock.RWMutexOptions](opts))
	must(t, err)
	s, err := lock.NewSemaphore(c, optionsOf[lock.SemaphoreOptions](opts))
	must(t, err)
	want := map[string]int64{} // tokens
	for i := range 50 {
		name := fmt.Sprint("orders:", i)
		want[name] = try(t, m, name).Token()
		must(t, try(t, m, fmt.Sprint("free:", i)).Release(t.Context()))
	}
	want["read"] = try(t, readers{rw}, "read").Token()
	try(t, readers{rw}, "read")
	permits := map[string]int64{}
	for range 3 {
		permits["orders:1"] = try(t, limited{s, 3}, "orders:1").Token()
	}
	must(t, try(t, limited{s, 1}, "free").Release(t.Context()))

	got := map[string]int64{}
	for l, err := range m.List(t.Context(), "") {
		must(t, err)
		got[l.Name] = l.Token
		if l.Name == "read" != (l.Mode == lock.Shared && l.Count == 2) || l.Holders[0].Label != "me" {
			t.Errorf("%+v", l)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed are %v, want %v", got, want)
	}
	var names []string
	for l, err := range rw.List(t.Context(), "orders:4[0-3]") {
		must(t, err)
		names = append(names, l.Name)
	}
	slices.Sort(names)
	if want := []string{"orders:40", "orders:41", "orders:42", "orders:43"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for l, err := range s.List(t.Context(), "") {
		must(t, err)
		if l.Name != "orders:1" || l.Taken != 3 || l.Token != permits[l.Name] {
			t.Errorf("%+v", l)
		}
		delete(permits, l.Name)
	}
	if len(permits) != 0 {
		t.Errorf("not listed: %v", permits)
	}
	n := 0
	for _, err := range m.List(t.Context(), "") {
		must(t, err)
		if n++; n == 2 {
			break
		}
	}
	n = 0
	for _, err := range m.List(t.Context(), "[") {
		if n++; err == nil {
			t.Error("a pattern without an end gives no error")
		}
	}
	if n != 1 {
		t.Errorf("%d errors, want one", n)
	}
}

// Promise: List finds every lock that is held from its beginning to its end.
func TestList(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		// Keys of others that look like the keys of locks.
		must(t, e.Redis.Set(t.Context(), e.key("text"), "x", 0).Err())
		must(t, e.Redis.HSet(t.Context(), e.key("hash"), "f", "v").Err())
		must(t, e.Redis.HSet(t.Context(), e.key("half"), "id", "g", "shared", "g", "until", time.Now().Add(time.Hour).UnixMicro()).Err())
		must(t, e.Redis.Set(t.Context(), e.Prefix+":{half}:readers", "x", 0).Err())
		checkList(t, e.newClient())
	})
}

// Promise: List finds every lock that is held from its beginning to its end.
func TestListOnACluster(t *testing.T) {
	t.Parallel()
	client := clienttest.Open(t, redistest.StartCluster(t, 3, 0).URL())
	checkList(t, client)
}
