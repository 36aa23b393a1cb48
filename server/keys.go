package server

import (
	"bytes"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/resp"
)

//go:embed keys.txt
var keysText string

// A keySpec says where a command has its keys.
type keySpec struct {
	name              string
	arity             int // as in Redis
	first, last, step int // positions among the arguments; 0: none there
	// movable, if not nil, appends the positions to dst. It reports false when the
	// arguments don't say.
	movable func(dst []int, args [][]byte) ([]int, bool)
	// single: the one key is the first argument.
	single bool
	reads  bool // it is one of readers
	rights *acl.Command

	fragments *fragmented // nil: it goes to one server
}

// keySpecs are all known commands by name.
var keySpecs = parseKeys(keysText)

func parseKeys(text string) map[string]*keySpec {
	specs := make(map[string]*keySpec)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				panic("server: keys.txt: " + line)
			}
			return n
		}
		k := &keySpec{name: f[0], arity: number(1), first: number(2), last: number(3), step: number(4)}
		k.movable = movable[k.name]
		k.single = k.first == 1 && k.last == 1 && k.movable == nil && !notInPools[k.name]
		k.reads = slices.Contains(readers, k.name)
		k.fragments = fragments[k.name]
		if k.rights = acl.Lookup(k.name); k.rights == nil {
			panic("server: the commands of package acl lack " + k.name)
		}
		specs[k.name] = k
	}
	return specs
}

// lookupKeys finds a command by its name in any case, without allocating.
func lookupKeys(name []byte) *keySpec {
	if len(name) > maxName {
		return nil
	}
	var low [maxName]byte
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	return keySpecs[string(low[:len(name)])]
}

// takes reports whether a command may have n arguments, its name included.
func (k *keySpec) takes(n int) bool {
	return k.arity >= 0 && n == k.arity || k.arity < 0 && n >= -k.arity
}

// positions appends the positions of the keys in args, whose number is right. It
// reports false when the arguments don't say where they are.
func (k *keySpec) positions(dst []int, args [][]byte) ([]int, bool) {
	if k.movable != nil {
		return k.movable(dst, args)
	}
	if k.first == 0 {
		return dst, true
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	for i := k.first; i <= last && i < len(args); i += k.step {
		dst = append(dst, i)
	}
	return dst, true
}

// movable are the commands whose keys stand where other arguments say.
var movable = map[string]func(dst []int, args [][]byte) ([]int, bool){
	"eval": counted(2), "eval_ro": counted(2), "evalsha": counted(2), "evalsha_ro": counted(2),
	"fcall": counted(2), "fcall_ro": counted(2),
	"lmpop": counted(1), "zmpop": counted(1), "blmpop": counted(2), "bzmpop": counted(2),
	"sintercard": counted(1), "zintercard": counted(1), "zinter": counted(1), "zunion": counted(1), "zdiff": counted(1),
	"zinterstore": counted(2, 1), "zunionstore": counted(2, 1), "zdiffstore": counted(2, 1),
	"sort": behind(2, "STORE"), "sort_ro": behind(2),
	"georadius": behind(6, "STORE", "STOREDIST"), "georadiusbymember": behind(5, "STORE", "STOREDIST"),
	"xread": streams, "xreadgroup": streams,
	"xgroup": subcommand, "xinfo": subcommand, "object": subcommand,
	"memory":  memoryUsage,
	"publish": func(dst []int, _ [][]byte) ([]int, bool) { return append(dst, 1), true },
}

// counted is for keys behind their number, which stands at position at, and more
// at fixed positions.
func counted(at int, more ...int) func([]int, [][]byte) ([]int, bool) {
	return func(dst []int, args [][]byte) ([]int, bool) {
		if at >= len(args) {
			return dst, false
		}
		n, ok := resp.ParseInt(args[at])
		if !ok || n < 0 || n > int64(len(args)-at-1) {
			return dst, false
		}
		dst = append(dst, more...)
		for i := range int(n) {
			dst = append(dst, at+1+i)
		}
		return dst, true
	}
}

// behind is for a key as the first argument and perhaps another behind one of the
// words, which are looked for from position from on.
func behind(from int, words ...string) func([]int, [][]byte) ([]int, bool) {
	return func(dst []int, args [][]byte) ([]int, bool) {
		dst = append(dst, 1)
		for i := from; i+1 < len(args); i++ {
			for _, w := range words {
				if bytes.EqualFold(args[i], []byte(w)) {
					dst = append(dst, i+1)
				}
			}
		}
		return dst, true
	}
}

// streams is for keys behind STREAMS, followed by as many ids.
func streams(dst []int, args [][]byte) ([]int, bool) {
	for i := 1; i < len(args); i++ {
		switch o := args[i]; {
		case bytes.EqualFold(o, []byte("GROUP")):
			i += 2
		case bytes.EqualFold(o, []byte("COUNT")), bytes.EqualFold(o, []byte("BLOCK")):
			i++
		case bytes.EqualFold(o, []byte("STREAMS")):
			n := (len(args) - i - 1) / 2
			for j := range n {
				dst = append(dst, i+1+j)
			}
			return dst, n > 0 && (len(args)-i-1)%2 == 0
		}
	}
	return dst, false
}

// subcommand is for a key behind a subcommand.
func subcommand(dst []int, args [][]byte) ([]int, bool) {
	if len(args) < 3 {
		return dst, false
	}
	return append(dst, 2), true
}

func memoryUsage(dst []int, args [][]byte) ([]int, bool) {
	if len(args) < 3 || !bytes.EqualFold(args[1], []byte("USAGE")) {
		return dst, false
	}
	return append(dst, 2), true
}
