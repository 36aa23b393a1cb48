package cache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
)

// What people see of a cache, and its invalidation without its types, which local levels
// hear.
func TestInfo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		client := w.client()
		c, s := w.users(withLocal, func(o *options) { o.Compress, o.NoJitter = 10, true }), newSource("ann")
		long := strings.Repeat("long ", 100)
		must(t, c.Set(t.Context(), "set", long))
		gets(t, c, "none", "", newSource("").load)
		kept(t, c, "1", s.load)
		all := map[string]cache.Info{}
		for i, err := range cache.List(t.Context(), client, "users") {
			must(t, err)
			all[i.Key] = i
		}
		if i := all["set"]; i.Kind != "value" || string(i.Payload) != `"`+long+`"` || i.Bytes > 100 || i.Cache != "users" ||
			i.Fresh > time.Hour || i.Fresh < 59*time.Minute || i.TTL < 59*time.Minute || i.Lease != 0 {
			t.Errorf("%+v", i)
		}
		if i := all["none"]; len(all) != 3 || i.Kind != "negative" || i.Fresh > 5*time.Second {
			t.Errorf("%d: %+v", len(all), i)
		}
		for _, err := range cache.List(t.Context(), client, "user") {
			t.Error("another cache's entry is listed", err)
		}
		_, found, err := cache.Inspect(t.Context(), client, "users", "nobody")
		if found || err != nil {
			t.Errorf("%v, %v", found, err)
		}
		for _, name := range []string{"us:ers", "}"} { // entries of another cache, or none
			_, _, err := cache.Inspect(t.Context(), client, name, "1")
			is(t, err, redoubt.ErrInvalidName)
			_, err = cache.Invalidate(t.Context(), client, name, "1")
			is(t, err, redoubt.ErrInvalidName)
			for _, err := range cache.List(t.Context(), client, name) {
				is(t, err, redoubt.ErrInvalidName)
			}
		}
		s.value.Store("bob")
		there, err := cache.Invalidate(t.Context(), client, "users", "1")
		if !there || err != nil {
			t.Errorf("%v, %v", there, err)
		}
		eventually(t, "the local level hears of it", func() bool {
			v, _, err := c.Get(t.Context(), "1", s.load)
			must(t, err)
			return v == "bob"
		})
	})
}
