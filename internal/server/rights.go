package server

import (
	"fmt"
	"strings"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
)

// rights are what a client's user may do.
type rights struct {
	user      *acl.User // nil: the client may do all
	positions []int     // of keys; scratch
}

func (r *rights) limited() bool { return r.user != nil }

// refusal returns the error for a command that the user may not run, or "". Unknown commands and
// wrong numbers of arguments pass.
func (r *rights) refusal(k *keySpec, h *handler, args [][]byte) string {
	switch {
	case h != nil && h.command != nil:
		return r.refusalOfExtension(h, args)
	case k != nil && k.Takes(len(args)):
		return r.refusalOfRedis(k, args)
	}
	return ""
}

func (r *rights) refusalOfRedis(k *keySpec, args [][]byte) string {
	what := k.rights.Of(args)
	if what == nil {
		return fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(k.name))
	}
	at, ok := k.positions(r.positions[:0], args)
	r.positions = at
	if !ok {
		at = nil // it is sent nowhere
	}
	return r.user.Refuses(what, args, at)
}

func (r *rights) refusalOfExtension(h *handler, args [][]byte) string {
	if h.command.CheckArity(len(args)) != "" {
		return ""
	}
	text := r.user.Refuses(h.rights, args, h.command.Keys(len(args)))
	inner := fenced(h, args)
	if text != "" || inner == nil {
		return text
	}
	k := lookupKeys(inner[0])
	switch {
	case k == nil:
		return unknownInPool(inner)
	case !k.Takes(len(inner)):
		return "ERR wrong number of arguments for '" + k.name + "' command"
	}
	return r.refusalOfRedis(k, inner)
}

// surelyPermit reports whether the user may run a command of the most common kinds. It says false of
// other kinds.
func (r *rights) surelyPermit(k *keySpec, args [][]byte) bool {
	return (k.single || k.fragments != nil) && k.Takes(len(args)) && r.refusalOfRedis(k, args) == ""
}

// Permits reports whether a user may run a command, one of Redis or of Redoubt's own, whose name is first.
func Permits(u *acl.User, args ...string) bool {
	if u.MayAll() {
		return true
	}
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	rights := acl.Lookup(args[0])
	if rights == nil {
		return false
	}
	if rights = rights.Of(raw); rights == nil {
		return false
	}
	if own := command.Lookup(args[0]); own != nil {
		return u.Refuses(rights, raw, own.Keys(len(raw))) == ""
	}
	k := lookupKeys(raw[0])
	if k == nil {
		return false
	}
	at, ok := k.positions(nil, raw)
	return ok && u.Refuses(rights, raw, at) == ""
}
