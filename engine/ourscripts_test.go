package engine

import (
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/lua"
	fencewire "github.com/redoubt-go/redoubt/internal/wire/fence"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/scan"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// undeclared are the scripts whose text does not show which keys they use. They lock
// all shards, so they wait for a long script on any key.
var undeclared = map[string]string{
	"fence.guard": "it runs the caller's commands, and those may need keys that they do not name, as SORT with GET",
}

// Every other script of the primitives locks only the shards of its keys.
func TestScriptsOfPrimitivesLockTheirKeys(t *testing.T) {
	scripts := slices.Concat(bitmap.Scripts(), bloom.Scripts(), cache.Scripts(), fencewire.Scripts(), geo.Scripts(), hll.Scripts(),
		lockwire.Scripts(), queue.Scripts(), ratelimit.Scripts(), scan.Scripts(), stockwire.Scripts(), ttlhash.Scripts())
	for _, sc := range scripts {
		proto, err := lua.Compile("user_script", sc.Source())
		if err != nil {
			t.Fatal(err)
		}
		if _, known := undeclared[sc.Name()]; declares(proto) == known {
			t.Errorf("%s: the engine sees its keys: %v; undeclared lists it: %v. It sees them when the name of each command is a constant and each key of KEYS",
				sc.Name(), known, known)
		}
	}
}
