package engine

import (
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/lua"
	bitmapwire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	cachewire "github.com/redoubt-go/redoubt/internal/wire/cache"
	fencewire "github.com/redoubt-go/redoubt/internal/wire/fence"
	geowire "github.com/redoubt-go/redoubt/internal/wire/geo"
	hllwire "github.com/redoubt-go/redoubt/internal/wire/hll"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	scanwire "github.com/redoubt-go/redoubt/internal/wire/scan"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
	ttlhashwire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// undeclared are the scripts whose text does not show which keys they use. They lock
// all shards, so they wait for a long script on any key.
var undeclared = map[string]string{
	"fence.guard": "it runs the caller's commands, and those may need keys that they do not name, as SORT with GET",
}

// Every other script of the primitives locks only the shards of its keys.
func TestScriptsOfPrimitivesLockTheirKeys(t *testing.T) {
	scripts := slices.Concat(bitmapwire.Scripts(), bloomwire.Scripts(), cachewire.Scripts(), fencewire.Scripts(), geowire.Scripts(), hllwire.Scripts(),
		lockwire.Scripts(), queuewire.Scripts(), ratelimitwire.Scripts(), scanwire.Scripts(), stockwire.Scripts(), ttlhashwire.Scripts())
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
