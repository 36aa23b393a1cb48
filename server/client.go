package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/resp"
)

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName is Redis' rule: printable ASCII without blanks.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

// shown changes what CLIENT LIST shows.
func (c *session) shown(f func(a *about)) {
	c.mu.Lock()
	f(&c.about)
	c.mu.Unlock()
}

func (c *session) shownName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

func (c *session) shownUser() string {
	if u := c.loggedIn(); u != nil {
		return u.Name()
	}
	return c.srv.opts.Username
}

func (c *session) setName(name string) { c.shown(func(a *about) { a.name = name }) }

// client answers CLIENT. What concerns the connection to the back end moves
// the client to one of its own, so that OK means what it says.
func (c *session) client(args [][]byte, raw []byte) {
	sub := strings.ToLower(string(args[1]))
	c.commands[Local]++
	// In a transaction REPLY ON changes nothing. Redis runs OFF and SKIP there, and
	// then EXEC's array has fewer elements than it says, for which the client waits.
	on := sub == "reply" && len(args) == 3 && bytes.EqualFold(args[2], []byte("ON")) && c.replies == repliesOn
	if c.tx.active && !on && !slices.Contains([]string{"id", "getname", "setname", "setinfo", "info", "list", "help", "getredir", "trackinginfo"}, sub) {
		c.refuseQueued("CLIENT " + strings.ToUpper(sub))
		return
	}
	if c.tx.active {
		answer := []byte{}
		c.capture = &answer
		defer func() {
			if c.capture != nil {
				c.capture = nil
				c.queueAnswer(answer)
			}
		}()
	}
	arity := map[string]int{
		"id": 2, "getname": 2, "setname": 3, "setinfo": 4, "info": 2, "kill": -3, "reply": 3, "no-evict": 3,
		"no-touch": 3, "tracking": -3, "caching": 3, "getredir": 2, "trackinginfo": 2, "unblock": -3, "help": 2,
	}
	if n := arity[sub]; n > 0 && len(args) != n || n < 0 && len(args) < -n {
		if c.tx.active {
			c.tx.broken, c.capture = true, nil // refused, not queued
		}
		c.fail("ERR wrong number of arguments for 'client|" + sub + "' command")
		return
	}
	switch sub {
	case "id":
		c.scratch = resp.AppendInt(c.scratch[:0], int64(c.id)) //nolint:gosec // counts clients
		c.reply(c.scratch)
	case "getname":
		if name := c.shownName(); name != "" {
			c.scratch = resp.AppendBulk(c.scratch[:0], name)
		} else {
			c.scratch = resp.AppendNull(c.scratch[:0], c.protocol)
		}
		c.reply(c.scratch)
	case "setname":
		if !validName(args[2]) {
			c.fail(badName)
			return
		}
		c.setName(string(args[2]))
		c.ok()
	case "setinfo":
		c.setInfo(string(args[2]), args[3])
	case "info":
		c.text(c.describe() + "\n")
	case "list":
		c.clientList(args)
	case "kill":
		c.clientKill(args)
	case "reply":
		c.clientReply(args)
	case "no-evict":
		// Clients are not evicted for the memory that they use.
		c.onOff(args[2])
	case "tracking":
		c.tracking(args, raw)
	case "caching", "no-touch":
		if c.dedicate() {
			c.forward(raw, nil)
		}
	case "getredir", "trackinginfo":
		// The shared connection tracks nothing, as this client does not.
		switch {
		case c.tx.active: // the back end queues it and answers for itself
			c.capture = nil
			c.forward(raw, nil)
		default:
			c.forward(raw, nil)
		}
	case "unblock":
		c.fail("ERR redoubt: CLIENT UNBLOCK is not supported: close the waiting client with CLIENT KILL ID instead")
	case "pause", "unpause":
		c.forward(raw, nil) // of the back end as a whole
	case "help":
		c.forward(raw, nil)
	default:
		c.fail("ERR unknown subcommand '" + string(args[1]) + "'. Try CLIENT HELP.")
	}
}

// text answers with a text, which RESP3 gives its format.
func (c *session) text(s string) {
	c.scratch = resp.AppendVerbatim(c.scratch[:0], c.protocol, "txt", s)
	c.reply(c.scratch)
}

func (c *session) onOff(arg []byte) {
	if !bytes.EqualFold(arg, []byte("ON")) && !bytes.EqualFold(arg, []byte("OFF")) {
		c.fail("ERR syntax error")
		return
	}
	c.ok()
}

func (c *session) setInfo(attribute string, value []byte) {
	if !validName(value) {
		c.fail("ERR " + strings.ToLower(attribute) + " cannot contain spaces, newlines or special characters.")
		return
	}
	switch strings.ToLower(attribute) {
	case "lib-name":
		c.shown(func(a *about) { a.libName = string(value) })
	case "lib-ver":
		c.shown(func(a *about) { a.libVer = string(value) })
	default:
		c.fail("ERR Unrecognized option '" + attribute + "'")
		return
	}
	c.ok()
}

// clientReply answers CLIENT REPLY ON | OFF | SKIP. The back end is not told:
// it goes on replying, and the replies are dropped here.
func (c *session) clientReply(args [][]byte) {
	switch strings.ToLower(string(args[2])) {
	case "on":
		c.replies, c.muted = repliesOn, false
		c.ok()
	case "off":
		c.replies = repliesOff
	case "skip":
		if c.replies != repliesOff {
			c.replies = skipNext
		}
	default:
		c.fail("ERR syntax error")
	}
}

// tracking gives the client the back end's own invalidations, on a connection
// of its own.
func (c *session) tracking(args [][]byte, raw []byte) {
	for _, a := range args[3:] {
		if bytes.EqualFold(a, []byte("REDIRECT")) {
			c.fail("ERR redoubt: CLIENT TRACKING with REDIRECT is not supported: ids of clients are not those of the back end; use RESP3 instead")
			return
		}
	}
	if c.dedicated == nil && bytes.EqualFold(args[2], []byte("OFF")) && len(args) == 3 {
		c.ok()
		return
	}
	on := bytes.EqualFold(args[2], []byte("ON"))
	if on && c.protocol == resp.RESP2 {
		c.fail("ERR redoubt: CLIENT TRACKING needs RESP3, in which invalidations are sent")
		return
	}
	if !c.dedicate() {
		return
	}
	c.forward(raw, func(dst, raw []byte) []byte {
		if bytes.Equal(raw, okRaw) {
			c.tracks.Store(on)
		}
		return append(dst, raw...)
	})
}

// describe is the session's line in CLIENT LIST, in the form of Redis.
func (c *session) describe() string {
	now := time.Now()
	c.mu.Lock()
	a := c.about
	c.mu.Unlock()
	flags := ""
	if a.inTransaction {
		flags += "x"
	}
	if c.listening() {
		flags += "P"
	}
	if flags == "" {
		flags = "N"
	}
	c.out.mu.Lock()
	waiting := len(c.out.buf)
	c.out.mu.Unlock()
	idle := max(0, now.UnixMilli()-c.active.Load()) / 1000
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d multi=-1 omem=%d tot-mem=%d user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s",
		c.id, c.conn.RemoteAddr(), c.conn.LocalAddr(), a.name, int64(now.Sub(c.born).Seconds()), idle, flags,
		a.shownDB, waiting, waiting, c.shownUser(), a.shownProtocol, a.libName, a.libVer)
}

// gone reports whether the session is ending.
func (c *session) gone() bool { return c.ctx.Err() != nil }

func (c *session) clientList(args [][]byte) {
	var ids []uint64
	switch {
	case len(args) == 2:
	case len(args) == 4 && bytes.EqualFold(args[2], []byte("TYPE")):
		if t := strings.ToLower(string(args[3])); t != "normal" && t != "pubsub" {
			if t != "master" && t != "replica" && t != "slave" {
				c.fail("ERR Unknown client type '" + string(args[3]) + "'")
				return
			}
			ids = []uint64{0} // there are none
		}
	case len(args) >= 4 && bytes.EqualFold(args[2], []byte("ID")):
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok || id < 1 {
				c.fail("ERR Invalid client ID")
				return
			}
			ids = append(ids, uint64(id))
		}
	default:
		c.fail("ERR syntax error")
		return
	}
	var want *bool
	if len(args) == 4 && bytes.EqualFold(args[2], []byte("TYPE")) {
		pubsub := bytes.EqualFold(args[3], []byte("pubsub"))
		want = &pubsub
	}
	slices.Sort(ids)
	all := c.srv.clients()
	slices.SortFunc(all, func(a, b *session) int { return int(a.id) - int(b.id) }) //nolint:gosec // counts clients
	var b strings.Builder
	for _, o := range all {
		if _, named := slices.BinarySearch(ids, o.id); o.gone() || ids != nil && !named || want != nil && o.listening() != *want {
			continue
		}
		b.WriteString(o.describe())
		b.WriteByte('\n')
	}
	c.text(b.String())
}

// A killFilter selects clients for CLIENT KILL.
type killFilter struct {
	id          uint64
	addr, laddr string
	user        string
	typ         string
	maxAge      time.Duration
	skipMe      bool
}

var errKillSyntax = errors.New("ERR syntax error")

func parseKill(args [][]byte) (killFilter, error) {
	f := killFilter{skipMe: true}
	if len(args)%2 != 0 {
		return f, errKillSyntax
	}
	for i := 0; i < len(args); i += 2 {
		value := string(args[i+1])
		switch strings.ToUpper(string(args[i])) {
		case "ID":
			id, err := strconv.ParseUint(value, 10, 63)
			if err != nil || id == 0 {
				return f, errors.New("ERR client-id should be greater than 0")
			}
			f.id = id
		case "ADDR":
			f.addr = value
		case "LADDR":
			f.laddr = value
		case "USER":
			f.user = value
		case "TYPE":
			f.typ = strings.ToLower(value)
			if !slices.Contains([]string{"normal", "pubsub", "master", "replica", "slave"}, f.typ) {
				return f, errors.New("ERR Unknown client type '" + value + "'")
			}
		case "MAXAGE":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 1 {
				return f, errors.New("ERR maxage is not an integer or out of range")
			}
			f.maxAge = time.Duration(n) * time.Second
		case "SKIPME":
			switch strings.ToLower(value) {
			case "yes":
				f.skipMe = true
			case "no":
				f.skipMe = false
			default:
				return f, errKillSyntax
			}
		default:
			return f, errKillSyntax
		}
	}
	return f, nil
}

func (f killFilter) matches(o *session) bool {
	switch {
	case f.id != 0 && o.id != f.id,
		f.addr != "" && o.conn.RemoteAddr().String() != f.addr,
		f.laddr != "" && o.conn.LocalAddr().String() != f.laddr,
		f.user != "" && f.user != o.shownUser(),
		f.maxAge != 0 && time.Since(o.born) < f.maxAge:
		return false
	}
	switch f.typ {
	case "normal":
		return !o.listening()
	case "pubsub":
		return o.listening()
	case "":
		return true
	}
	return false
}

var errKilled = errors.New("killed by CLIENT KILL")

// clientKill answers CLIENT KILL addr:port and CLIENT KILL <filter> ….
func (c *session) clientKill(args [][]byte) {
	old := len(args) == 3
	f := killFilter{addr: string(args[2])}
	if !old {
		var err error
		if f, err = parseKill(args[2:]); err != nil {
			c.fail(err.Error())
			return
		}
	}
	killed, me := 0, false
	for _, o := range c.srv.clients() {
		if o.gone() || !f.matches(o) || o == c && f.skipMe {
			continue
		}
		killed++
		if o == c {
			me = true // once it has its answer
			continue
		}
		o.kill(errKilled)
	}
	switch {
	case old && killed == 0:
		c.fail("ERR No such client")
	case old:
		c.ok()
	default:
		c.scratch = resp.AppendInt(c.scratch[:0], int64(killed))
		c.reply(c.scratch)
	}
	if me {
		c.quit = true
	}
}
