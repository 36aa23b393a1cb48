package redoubt

import (
	"crypto/sha1" //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	"encoding/hex"
)

// A Script is a Lua script that runs on the server as one atomic step. Make
// one with [NewScript], once, in a package variable, and run it through a
// [Cmd].
//
// It is sent by its digest: 40 bytes and its arguments. A server that doesn't
// know it yet is given it by SCRIPT LOAD, not by EVAL: since Redis 7.4 scripts
// that came by EVAL are evicted.
type Script struct {
	name   string
	source string
	digest string
}

// NewScript returns the script with the given Lua source. The name is for
// people.
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
