package cache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
)

// An Admin reads, lists and invalidates entries without knowing their types. Local levels get its
// invalidations.
func TestAdmin(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		admin, err := cache.NewAdmin(e.newClient(), cache.AdminOptions{})
		must(t, err)
		c, s := e.users(withLocal, func(o *options) { o.Compress, o.NoJitter = 10, true }), newSource("ann")
		long := strings.Repeat("long ", 100)
		must(t, c.Set(t.Context(), "set", long))
		gets(t, c, "none", "", newSource("").load)
		kept(t, c, "1", s.load)
		all := map[string]cache.Info{}
		for i, err := range admin.List(t.Context(), "users:*") {
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
		for _, err := range admin.List(t.Context(), "user:*") {
			t.Error("another cache's entry is listed", err)
		}
		n := 0
		for i, err := range admin.List(t.Context(), "") {
			must(t, err)
			if _, is := all[i.Key]; is {
				n++
			}
		}
		if n < 3 {
			t.Errorf("%d entries are listed without a pattern", n)
		}
		for _, err := range admin.List(t.Context(), "users:[") {
			is(t, err, redoubt.ErrInvalidPattern)
		}
		_, err = cache.NewAdmin(nil, cache.AdminOptions{})
		says(t, err, "client is nil")
		_, found, err := admin.Info(t.Context(), "users", "nobody")
		if found || err != nil {
			t.Errorf("%v, %v", found, err)
		}
		for _, name := range []string{"us:ers", "}"} { // entries of another cache, or none
			_, _, err := admin.Info(t.Context(), name, "1")
			is(t, err, redoubt.ErrInvalidName)
			_, err = admin.Invalidate(t.Context(), name, "1")
			is(t, err, redoubt.ErrInvalidName)
		}
		s.value.Store("bob")
		there, err := admin.Invalidate(t.Context(), "users", "1")
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
