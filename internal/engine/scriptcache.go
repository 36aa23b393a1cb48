package engine

import (
	"crypto/sha1" //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/lua"
)

const (
	digestLen   = 2 * sha1.Size
	errNoScript = "NOSCRIPT No matching script. Please use EVAL."
)

// A script is one that was loaded.
type script struct {
	digest   string
	proto    *lua.Proto
	native   Native // nil for most
	allowOOM bool   // by its first line, as the next two
	readOnly bool
	mayWrite bool // the same, said the other way round: it has such a line
	keysOnly bool // uses only the keys in KEYS
	source   string
	size     int  // in bytes, compiled, with its source
	kept     bool // by SCRIPT LOAD
}

// A scriptCache holds the scripts that EVALSHA can name: scripts of SCRIPT LOAD until they are
// flushed, and the latest scripts of EVAL.
type scriptCache struct {
	mu       sync.RWMutex
	byDigest map[string]*script
	flushes  atomic.Int64
	kept     int       // bytes of the scripts of SCRIPT LOAD
	passing  []*script // the others, oldest first
	bytes    int       // bytes of the scripts of EVAL
}

// smallScript is the largest script, in bytes, that a session remembers. The script then stays in
// memory after the cache has dropped it.
const smallScript = 64 << 10

var (
	errManyScripts = errors.New("the scripts that are loaded are too large together: SCRIPT FLUSH")
	errLongScript  = errors.New("the script is too long")
)

// load returns the script with the text given, compiled now when it is new.
// keep says that it stays until it is flushed.
func (sc *scriptCache) load(source []byte, keep bool, e *Engine) (*script, error) {
	digest := digestOf(source)
	if s := sc.find(digest[:]); s != nil && (!keep || s.kept) {
		return s, nil
	}
	s, err := e.compile(digest, source)
	if err != nil {
		return nil, err
	}
	return sc.add(s, keep, &e.bounds)
}

// read is load that leaves the cache as it is.
func (sc *scriptCache) read(source []byte, e *Engine) (*script, error) {
	digest := digestOf(source)
	if s := sc.find(digest[:]); s != nil {
		return s, nil
	}
	return e.compile(digest, source)
}

func digestOf(source []byte) (digest [digestLen]byte) {
	sum := sha1.Sum(source) //nolint:gosec // as above
	hex.Encode(digest[:], sum[:])
	return digest
}

// compile takes time in proportion to the source. The caller holds no shard.
func (e *Engine) compile(digest [digestLen]byte, source []byte) (*script, error) {
	if most := e.bounds.source; len(source) > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", errLongScript, len(source), most)
	}
	text := string(source)
	proto, err := lua.Compile("user_script", text)
	if err != nil {
		return nil, err
	}
	s := &script{digest: string(digest[:]), proto: proto, native: e.opts.Natives[string(digest[:])], source: text, size: proto.Size()}
	s.keysOnly = s.native != nil || declares(proto)
	if flags := proto.Flags(); flags != nil {
		s.mayWrite = true
		for _, f := range flags {
			switch f {
			case "no-writes":
				s.readOnly, s.mayWrite = true, false
			case "allow-oom":
				s.allowOOM = true
			}
		}
	}
	return s, nil
}

func (sc *scriptCache) add(s *script, keep bool, b *bounds) (*script, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	old := sc.byDigest[s.digest]
	switch {
	case keep && (old == nil || !old.kept) && sc.kept+s.size > b.loaded:
		return nil, errManyScripts
	case old != nil && (old.kept || !keep):
		return old, nil
	case old != nil:
		sc.drop(old)
	case sc.byDigest == nil:
		sc.byDigest = map[string]*script{}
	}
	sc.byDigest[s.digest] = s
	if s.kept = keep; keep {
		sc.kept += s.size
		return s, nil
	}
	sc.passing = append(sc.passing, s)
	sc.bytes += s.size
	for len(sc.passing) > b.evals || sc.bytes > b.evalBytes && len(sc.passing) > 1 {
		sc.drop(sc.passing[0])
	}
	return s, nil
}

// drop forgets a script that came by EVAL. Sessions that ran it last may go on.
func (sc *scriptCache) drop(s *script) {
	i := slices.Index(sc.passing, s)
	sc.passing = slices.Delete(sc.passing, i, i+1)
	sc.bytes -= s.size
	delete(sc.byDigest, s.digest)
}

// find returns the script of a digest, in any case, or nil.
func (sc *scriptCache) find(digest []byte) *script {
	if len(digest) != digestLen {
		return nil
	}
	var low [digestLen]byte
	for i, b := range digest {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	return sc.byDigest[string(low[:])]
}

func (sc *scriptCache) len() int {
	sc.mu.RLock()
	defer sc.mu.RUnlock()
	return len(sc.byDigest)
}

func (sc *scriptCache) flush() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.byDigest, sc.passing, sc.kept, sc.bytes = nil, nil, 0, 0
	sc.flushes.Add(1)
}
