package engine

import (
	"bytes"
	"fmt"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Native is a script as a Go function, which is run in place of the script
// once that is loaded. It must have the same effects, by the same commands,
// and the same reply.
//
// It returns false when it leaves the case at hand to the script, like one of
// odd arguments; then it must have written nothing. It also ends, and the
// script is run, when a command of it fails before any has written. While the
// engine refuses to write, as a replica, for want of memory or of replicas,
// no function is called.
type Native func(tx *Tx) bool

// A Tx is one run of a [Native]. It must not be used after that, nor by other
// goroutines.
type Tx struct {
	Keys, Args [][]byte
	host       *scriptHost
}

// Micros is the script's time in µs since 1970, as the command TIME returns it.
func (tx *Tx) Micros() int64 { return tx.host.outer.micros() }

// A Command is one that functions run, looked up once.
type Command struct {
	name []byte
	cmd  *command
}

// CommandOf returns the command of a name, which has no subcommands.
func CommandOf(name string) *Command {
	cmd := find([]byte(name))
	if cmd == nil || cmd.subIndex != nil {
		panic("engine: no function can run the command " + name)
	}
	return &Command{[]byte(name), cmd}
}

// Do runs a command as redis.call does. The value is good until the next
// command. The arguments are only read.
func (tx *Tx) Do(cmd *Command, args ...[]byte) Value {
	h := tx.host
	wrote := h.outer.dirty > 0
	h.argv = append(append(h.argv[:0], cmd.name), args...) // the caller's list then needs no allocation
	h.reply = h.execute(h.reply[:0], resp.RESP2, cmd.cmd, h.argv)
	if h.reply[0] == '-' {
		if !wrote {
			panic(toScript{})
		}
		_, line, _ := cutLine(h.reply)
		panic(nativeError(fmt.Sprintf("%s script: %s", line, h.digest)))
	}
	return Value{h.reply}
}

// Word returns empty memory for one argument of a command, good until the
// function ends. There are a few words of 32 bytes that cost nothing.
func (tx *Tx) Word() []byte {
	h := tx.host
	if h.wordsAt == len(h.words) {
		return make([]byte, 0, len(h.words[0]))
	}
	h.wordsAt++
	return h.words[h.wordsAt-1][:0]
}

// Holds reports whether a key is missing or has a type, which is named as TYPE does. It leaves an expired key in place:
// the command that deletes it must do so in its turn.
func (tx *Tx) Holds(key []byte, kind string) bool {
	it := tx.item(key)
	return it == nil || it.val.kind().String() == kind
}

// Expired reports whether the next command that uses a key deletes it first.
func (tx *Tx) Expired(key []byte) bool {
	it := tx.item(key)
	return it != nil && it.val.expire != 0 && it.val.expire < tx.host.outer.time()
}

// Peek returns the string at a key in place, nil for none, until the next command. A command must have read the key.
func (tx *Tx) Peek(key []byte) []byte {
	it := tx.item(key)
	if it == nil || it.val.kind() != kindString {
		return nil
	}
	return it.val.bytes()
}

func (tx *Tx) item(key []byte) *item {
	c := tx.host.outer
	ks := c.shard(key).dbs[c.s.db]
	if ks == nil {
		return nil
	}
	return ks.keys.get(key)
}

// Array begins the script's reply as one of n elements.
func (tx *Tx) Array(n int) { tx.host.outer.array(n) }

// Int is the script's reply, or the next element of it.
func (tx *Tx) Int(n int64) { tx.host.outer.int(n) }

// Bulk is the script's reply, or the next element of it.
func (tx *Tx) Bulk(b []byte) { tx.host.outer.bulk(b) }

// A Value is the reply of a command, read from its beginning to its end.
type Value struct{ b []byte }

// Keep copies the value, which is good until the function ends then.
func (v *Value) Keep() { v.b = bytes.Clone(v.b) }

// Elements reads the head of an array.
func (v *Value) Elements() int { return int(v.Int()) }

// Int reads an integer.
func (v *Value) Int() int64 {
	_, line, rest := cutLine(v.b)
	v.b = rest
	n, _ := resp.ParseInt(line)
	return n
}

// Null reports whether the next element is null, and passes it if so.
func (v *Value) Null() bool {
	_, line, rest := cutLine(v.b)
	if v.b[0] == ':' || string(line) != "-1" {
		return false
	}
	v.b = rest
	return true
}

// Bulk reads a string. It reports false, and nil, for null.
func (v *Value) Bulk() ([]byte, bool) {
	n := v.Int()
	if n < 0 {
		return nil, false
	}
	b := v.b[:n:n]
	v.b = v.b[n+2:]
	return b, true
}

type (
	toScript    struct{}
	nativeError string
)

// native runs f. It reports false when the script must run as Lua.
func (h *scriptHost) native(f Native, keys, args [][]byte) (done bool) {
	c := h.outer
	from := len(c.w)
	defer func() {
		switch r := recover().(type) {
		case nil:
			if !done {
				c.w = c.w[:from]
			}
		case toScript:
			c.w, done = c.w[:from], false
		case nativeError:
			c.w = resp.AppendError(c.w[:from], string(r))
			done = true
		default:
			panic(r)
		}
	}()
	h.tx, h.wordsAt = Tx{Keys: keys, Args: args, host: h}, 0
	return f(&h.tx)
}
