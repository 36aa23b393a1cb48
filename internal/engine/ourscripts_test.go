package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
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

// ourScripts are the scripts of all primitives.
func ourScripts() []*redoubt.Script {
	return slices.Concat(bitmapwire.Scripts(), bloomwire.Scripts(), cachewire.Scripts(), fencewire.Scripts(), geowire.Scripts(), hllwire.Scripts(),
		lockwire.Scripts(), queuewire.Scripts(), ratelimitwire.Scripts(), scanwire.Scripts(), stockwire.Scripts(), ttlhashwire.Scripts())
}

// frozenTime stands in front of a script, whose clock then stands still, and whose keys don't expire, so that two servers
// can be compared.
const frozenTime = `
local real = redis
local function without(...)
  local kept, skip = {}, false
  for _, a in ipairs({...}) do
    if not skip and a ~= 'PX' and a ~= 'EX' and a ~= 'PXAT' then kept[#kept + 1] = a end
    skip = a == 'PX' or a == 'EX' or a == 'PXAT'
  end
  return unpack(kept)
end
local function by(call)
  return function(name, ...)
    if name == 'TIME' then return {'4102444800', '123456'} end
    if name == 'PTTL' then return 5000 end
    if string.find(name, '^HP') then return {1} end -- not in Redis 7.0
    if name == 'PEXPIRE' or name == 'PEXPIREAT' or name == 'EXPIRE' then return 1 end
    if name == 'SET' then return call(name, without(...)) end
    return call(name, ...)
  end
end
local redis = setmetatable({call = by(real.call), pcall = by(real.pcall)}, {__index = real})
`

// A primitive is a script with the parameters that its header names.
type primitive struct {
	source     string
	keys, args []parameter
}

// A parameter is KEYS[n] or ARGV[n] of a header. Of one with more, KEYS[n..], there may be several.
type parameter struct {
	name, kind string
	more       bool
}

var headerLine = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[\d+(\.\.)?\]\s+(\S+)\s+(\S+)`)

func primitives() (all []primitive) {
	for _, sc := range ourScripts() {
		if sc.Name() == "scan.elements" {
			continue // it replies with the id of the process
		}
		p := primitive{source: frozenTime + sc.Source()}
		for _, m := range headerLine.FindAllStringSubmatch(sc.Source(), -1) {
			list := &p.keys
			if m[1] == "ARGV" {
				list = &p.args
			}
			*list = append(*list, parameter{m[3], m[4], m[2] != ""})
		}
		all = append(all, p)
	}
	return all
}

var allPrimitives = primitives()

// primitive returns the arguments of EVAL for a script of a primitive.
func (v vocabulary) primitive() [][]byte {
	p := allPrimitives[v.r.IntN(len(allPrimitives))]
	var keys, args []string
	for _, k := range p.keys {
		for range v.several(k) {
			key := "{t}p" + fmt.Sprint(v.r.IntN(2)) + ":" + k.name
			if v.r.IntN(30) == 0 {
				key = v.word("k") // perhaps of another type
			}
			keys = append(keys, key)
		}
	}
	for _, a := range p.args {
		for range v.several(a) {
			word := v.pick("id1", "id2", "id3", "m1", "", "PUBLISH ch", "SPUBLISH {t}ch", "=a", "a 1 b", "1", "0")
			if strings.HasPrefix(a.kind, "integer") || a.kind == "0|1" {
				word = v.pick("0", "1", "2", "3", "10", "1000", "60000", fmt.Sprint(v.r.IntN(100)))
			}
			if choices := strings.Split(a.kind, "|"); len(choices) > 1 && v.r.IntN(4) > 0 {
				word = v.pick(choices...)
			}
			if v.r.IntN(20) == 0 {
				word = v.pick("x", "", "-1", "1.5", "01", "1e3", " 5", "-0", "\x00\xff") // no large number: scripts count to it
			}
			args = append(args, word)
		}
	}
	return argv(slices.Concat([]string{p.source, fmt.Sprint(len(keys))}, keys, args)...)
}

// several says how often a parameter is there.
func (v vocabulary) several(p parameter) int {
	if p.more {
		return v.r.IntN(10)
	}
	return 1
}

// Every other script of the primitives locks only the shards of its keys.
func TestScriptsOfPrimitivesLockTheirKeys(t *testing.T) {
	for _, sc := range ourScripts() {
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
