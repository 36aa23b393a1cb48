package server

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
)

// rights are what a client's user may do.
type rights struct {
	account   *account
	user      *acl.User  // of the account when limited last looked; nil: the client may do all
	positions []int      // of keys; scratch
	denial    acl.Denial // of the last command that was checked
}

// limited reports whether there is something that the client may not do.
func (r *rights) limited() bool {
	if r.user = r.account.user(); r.user != nil && r.user.MayAll() {
		r.user = nil
	}
	return r.user != nil
}

// refusal returns the error for a command that the user may not run, or "". It also refuses unknown commands,
// such as commands of a module, and arguments that hide the keys, because it can't check rights on them.
func (r *rights) refusal(k *keySpec, h *handler, args [][]byte) string {
	r.denial = acl.Denial{}
	switch {
	case h != nil && h.command != nil:
		return r.refusalOfExtension(h, args)
	case k == nil && h == nil:
		return unknownCommandError(args)
	case k != nil && !k.Takes(len(args)):
		return "ERR wrong number of arguments for '" + k.name + "' command"
	case k != nil:
		return r.refusalOfRedis(k, args)
	}
	return ""
}

// hiddenKeys is for arguments that hide the keys.
const hiddenKeys = "ERR syntax error"

func (r *rights) refusalOfRedis(k *keySpec, args [][]byte) string {
	what := k.rights.Of(args)
	if what == nil {
		return fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(k.name))
	}
	at, ok := k.positions(r.positions[:0], args)
	r.positions = at
	if r.denial = r.user.Refuses(what, args, at); r.denial.Reason == acl.None && !ok && !r.user.AnyKey() {
		return hiddenKeys
	}
	return r.denial.Message()
}

func (r *rights) refusalOfExtension(h *handler, args [][]byte) string {
	if fault := h.command.CheckArity(len(args)); fault != "" {
		return fault
	}
	r.denial = r.user.Refuses(h.rights, args, h.command.Keys(len(args)))
	inner := fenced(h, args)
	if r.denial.Reason != acl.None || inner == nil {
		return r.denial.Message()
	}
	k := lookupKeys(inner[0])
	switch {
	case k == nil:
		return unknownCommandError(inner)
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

// permitPlain reports whether the user surely may run a command of one of the most common kinds. It returns false if
// only a longer check can tell.
func (r *rights) permitPlain(known *knownKeys, args [][]byte) bool {
	if !r.limited() {
		return true
	}
	k := known.lookup(args[0])
	return k != nil && r.surelyPermit(k, args)
}

// ownScripts are the scripts of Redoubt's own commands, by their digests.
var ownScripts = sync.OnceValue(func() map[string]*redoubt.Script {
	all := make(map[string]*redoubt.Script)
	for _, s := range command.Scripts() {
		all[s.Digest()] = s
	}
	return all
})

// scriptLimits keep scripts on the engine from running what their user may not run. Any goroutine may use them.
type scriptLimits struct {
	account atomic.Pointer[account] // nil: the client may do all
	// note adds what a script was refused to ACL LOG.
	note func(user *acl.User, denial *acl.Denial)
}

// of returns the functions that refuse commands of the script with this digest, or nil if the script may run all
// commands. A script of Redoubt's own uses only its declared keys, so the right to run it is enough. But that of
// FENCE.DO also runs commands of its caller. asks is for a script that asks whether it may run a command, runs for a
// command that it runs.
func (l *scriptLimits) of(digest string, keys [][]byte) (asks, runs func(args [][]byte) string) {
	u, own := l.account.Load().user(), ownScripts()[digest]
	guards := own != nil && own.Name() == guardScript
	if u == nil || u.MayAll() || own != nil && !guards {
		return nil, nil
	}
	r := rights{user: u}
	asks = func(args [][]byte) string {
		r.denial = acl.Denial{}
		if guards && ofGuard(keys, args) {
			return ""
		}
		k := lookupKeys(args[0])
		if k == nil || !k.Takes(len(args)) {
			return "" // the engine refuses it
		}
		if text := r.refusalOfRedis(k, args); r.denial.Reason == acl.None {
			return text
		}
		return r.denial.InScript()
	}
	return asks, func(args [][]byte) string {
		text := asks(args)
		if r.denial.Loggable() {
			l.note(u, &r.denial)
		}
		return text
	}
}

// guardScript is the name of the script of FENCE.DO.
const guardScript = "fence.guard"

// ofGuard reports whether the script of FENCE.DO with these keys runs a command for itself: with the first key, which
// the user has a right to, or which the server made.
func ofGuard(keys, args [][]byte) bool {
	return len(keys) > 0 && len(args) > 1 && bytes.Equal(args[1], keys[0]) && (bytes.EqualFold(args[0], []byte("GET")) || bytes.EqualFold(args[0], []byte("SET")))
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
		return u.Refuses(rights, raw, own.Keys(len(raw))).Reason == acl.None
	}
	k := lookupKeys(raw[0])
	if k == nil {
		return false
	}
	at, ok := k.positions(nil, raw)
	return ok && u.Refuses(rights, raw, at).Reason == acl.None
}
