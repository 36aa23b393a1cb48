package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	// MaxToken is the largest token: what a double holds exactly.
	MaxToken = 1<<53 - 1
	// MaxWords bounds the names, keys and arguments of all commands together.
	MaxWords = 4000
)

// Key returns the key of the largest token seen for a resource. An invalid name
// gives an error that matches redoubt.ErrInvalidName.
func Key(client *redoubt.Client, resource string) (string, error) {
	return client.Key(resource, "fence")
}

// CheckToken returns an error for a token that is not between 1 and [MaxToken].
func CheckToken(token int64) error {
	if token < 1 || token > MaxToken {
		return fmt.Errorf("fence: token is %d; want 1 to %d", token, int64(MaxToken))
	}
	return nil
}

// DoCmd runs cmds if token is at least the largest one at key, and remembers it for keep, 0 for
// ever. [ReadVerdict] reads its reply. It checks the token and cmds.
func DoCmd(key string, token int64, keep time.Duration, cmds ...redoubt.Cmd) (redoubt.Cmd, error) {
	guard := redoubt.Cmd{
		Script: guardScript,
		Keys:   []string{key},
		Args:   []string{strconv.FormatInt(token, 10), strconv.FormatInt(keep.Milliseconds(), 10)},
		Flags:  redoubt.Idempotent,
	}
	errs := []error{CheckToken(token)}
	words := 0
	for _, c := range cmds {
		name := strings.Fields(c.Name)
		switch {
		case c.Flags&redoubt.Blocking != 0:
			errs = append(errs, fmt.Errorf("fence: %s blocks, which can't be guarded", c.Name))
		case c.Script != nil && len(cmds) > 1:
			errs = append(errs, errors.New("fence: a script can't be guarded together with other commands"))
		case c.Script != nil:
			guard.Script = wrap(c.Script)
		case len(name) == 0:
			errs = append(errs, errors.New("fence: a command has no name"))
		default:
			words += len(name) + len(c.Keys) + len(c.Args)
			guard.Args = append(guard.Args, strconv.Itoa(len(name)), strconv.Itoa(len(c.Keys)), strconv.Itoa(len(c.Args)))
			guard.Args = append(guard.Args, name...)
		}
		guard.Keys = append(guard.Keys, c.Keys...)
		guard.Args = append(guard.Args, c.Args...)
		if !c.Flags.Resendable() {
			guard.Flags = 0
		}
	}
	if words > MaxWords {
		errs = append(errs, fmt.Errorf("fence: the commands have %d words; want at most %d", words, MaxWords))
	}
	return guard, errors.Join(errs...)
}

// A Verdict is the answer to one [DoCmd].
type Verdict struct {
	// Accepted tells whether the commands ran.
	Accepted bool
	// Largest is the largest token seen, this one included.
	Largest int64
	// Replies are the replies of the commands, if they ran. The reply of a script that
	// returned nil may be missing.
	Replies []redoubt.Reply
}

// ReadVerdict reads the reply to [DoCmd].
func ReadVerdict(r redoubt.Reply) (Verdict, error) {
	a, err := r.Array()
	if err != nil {
		return Verdict{}, err
	}
	if len(a) < 2 {
		return Verdict{}, fmt.Errorf("fence: reply has %d elements, want at least 2", len(a))
	}
	var n [2]int64
	if err := (redoubt.Reply{Val: a[:2]}).Ints(n[:]); err != nil {
		return Verdict{}, err
	}
	v := Verdict{Accepted: n[0] == 1, Largest: n[1]}
	for _, val := range a[2:] {
		reply := redoubt.Reply{Val: val}
		if se, ok := val.(redoubt.ServerError); ok {
			reply = redoubt.Reply{Err: se}
		}
		v.Replies = append(v.Replies, reply)
	}
	return v, nil
}

// LargestCmd asks for the largest token at key.
func LargestCmd(key string) redoubt.Cmd {
	return redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}
}

// ReadLargest reads the reply to [LargestCmd]: 0 if no token was seen.
func ReadLargest(r redoubt.Reply) (int64, error) {
	if r.IsNil() {
		return 0, nil
	}
	return r.Int()
}
