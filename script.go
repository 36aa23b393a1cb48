package redoubt

import (
	"crypto/sha1" //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	"encoding/hex"
)

// A Script is a Lua script that runs on the server as one atomic step. Make
// one with [NewScript], once, in a package variable, and run it through a
// [Cmd].
//
// A Conn sends its digest: 40 bytes and its arguments. When the server doesn't know the
// script, the Conn loads it by SCRIPT LOAD and not by EVAL, because Redis 7.4 evicts scripts
// that came by EVAL.
type Script struct {
	name   string
	source string
	digest string
}

// NewScript returns the script with the given Lua source. The name is only for
// messages.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{name: name, source: source, digest: hex.EncodeToString(sum[:])}
}

// Name returns the name given to [NewScript], like "lock.acquire".
func (s *Script) Name() string { return s.name }

// Source returns the Lua text.
func (s *Script) Source() string { return s.source }

// Digest returns the 40 hexadecimal digits that EVALSHA takes.
func (s *Script) Digest() string { return s.digest }
