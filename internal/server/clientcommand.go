package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// maxClientName is the greatest length in bytes of the name of a client, and of the name and the version of its library.
const maxClientName = 4 << 10

// nameFault returns what is wrong with a name of a client, or of something of it, or "". The rule for its bytes is Redis':
// printable ASCII without blanks.
func nameFault(of string, name []byte) string {
	switch {
	case slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' }):
		return "ERR " + of + " cannot contain spaces, newlines or special characters."
	case len(name) > maxClientName:
		return "ERR a name may have " + strconv.Itoa(maxClientName) + " bytes"
	}
	return ""
}

const clientNames = "Client names"

// clientCommand answers CLIENT.
func clientCommand(c *session, args [][]byte, raw []byte) {
	sub := strings.ToLower(string(args[1]))
	// In a transaction REPLY ON changes nothing. Redis runs OFF and SKIP there, and
	// then EXEC's array has fewer elements than it says, for which the client waits.
	on := sub == "reply" && len(args) == 3 && bytes.EqualFold(args[2], []byte("ON")) && c.replies == repliesOn
	pause := c.srv.opts.Sessions != nil && (sub == "pause" || sub == "unpause") // the engine queues it
	if c.tx.active && !on && !pause && !slices.Contains([]string{"id", "getname", "setname", "setinfo", "info", "list", "help", "getredir", "trackinginfo"}, sub) {
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
			c.capture = nil // refused, not queued
		}
		c.reject("ERR wrong number of arguments for 'client|" + sub + "' command")
		return
	}
	switch sub {
	case "id":
		c.scratch = resp.AppendInt(c.scratch[:0], int64(c.id)) //nolint:gosec // counts clients
		c.reply(c.scratch)
	case "getname":
		if name := c.info.get().name; name != "" {
			c.scratch = resp.AppendBulk(c.scratch[:0], name)
		} else {
			c.scratch = resp.AppendNull(c.scratch[:0], c.protocol)
		}
		c.reply(c.scratch)
	case "setname":
		if fault := nameFault(clientNames, args[2]); fault != "" {
			c.fail(fault)
			return
		}
		c.info.change(func(i *clientInfo) { i.name = string(args[2]) })
		c.ok()
	case "setinfo":
		setInfo(c, string(args[2]), args[3])
	case "info":
		c.text(describe(c, inputOf(c, args), c.srv.target.dirty(c.ctx, []*session{c})) + "\n")
	case "list":
		clientList(c, args)
	case "kill":
		clientKill(c, args)
	case "reply":
		clientReply(c, args)
	case "no-evict":
		// Clients are not evicted for the memory that they use: it shows in CLIENT LIST alone.
		setOnOff(c, args[2], func(i *clientInfo, on bool) { i.noEvict = on })
	case "unblock":
		clientUnblock(c, args)
	default:
		c.capture = nil // what is carried gets queued itself
		if !c.carrier.client(sub, args, raw) {
			c.fail("ERR unknown subcommand '" + string(args[1]) + "'. Try CLIENT HELP.")
		}
	}
}

// setOnOff answers a subcommand with ON or OFF.
func setOnOff(c *session, arg []byte, set func(i *clientInfo, on bool)) {
	on := bytes.EqualFold(arg, []byte("ON"))
	if !on && !bytes.EqualFold(arg, []byte("OFF")) {
		c.fail("ERR syntax error")
		return
	}
	c.info.change(func(i *clientInfo) { set(i, on) })
	c.ok()
}

func setInfo(c *session, attribute string, value []byte) {
	if fault := nameFault(strings.ToLower(attribute), value); fault != "" {
		c.fail(fault)
		return
	}
	switch strings.ToLower(attribute) {
	case "lib-name":
		c.info.change(func(i *clientInfo) { i.libName = string(value) })
	case "lib-ver":
		c.info.change(func(i *clientInfo) { i.libVer = string(value) })
	default:
		c.fail("ERR Unrecognized option '" + attribute + "'")
		return
	}
	c.ok()
}

// clientReply answers CLIENT REPLY ON | OFF | SKIP. The back end is not told:
// it goes on replying, and the replies are dropped here.
func clientReply(c *session, args [][]byte) {
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

// textCopies is how often a long text is in memory while it is made.
const textCopies = 3

// clientList answers CLIENT LIST [TYPE type | ID id …].
func clientList(c *session, args [][]byte) {
	all := slices.DeleteFunc(c.srv.clients(), (*session).gone)
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	switch {
	case len(args) == 2:
	case len(args) == 4 && bytes.EqualFold(args[2], []byte("TYPE")):
		t := strings.ToLower(string(args[3]))
		if !isClientType(t) {
			c.fail("ERR Unknown client type '" + string(args[3]) + "'")
			return
		}
		all = slices.DeleteFunc(all, func(o *session) bool { return !isType(o, t) })
	case len(args) >= 4 && bytes.EqualFold(args[2], []byte("ID")):
		all = nil
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok {
				c.fail("ERR Invalid client ID")
				return
			}
			if o := c.srv.client(id); o != nil && !o.gone() {
				all = append(all, o) // as often as it is named
			}
		}
	default:
		c.fail("ERR syntax error")
		return
	}
	in, dirty := inputOf(c, args), c.srv.target.dirty(c.ctx, all)
	var b strings.Builder
	hold := c.account()
	defer hold(0)
	for _, o := range all {
		b.WriteString(describe(o, in, dirty))
		b.WriteByte('\n')
		if !hold(textCopies * b.Len()) {
			c.fail("ERR redoubt: " + errNoRoom.Error() + ": name fewer clients at once")
			return
		}
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

// parseKill reads the filters of CLIENT KILL; known tells who is a user.
func parseKill(args [][]byte, known func(user string) bool) (killFilter, error) {
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
			if f.user = value; !known(value) {
				return f, errors.New("ERR No such user '" + value + "'")
			}
		case "TYPE":
			f.typ = strings.ToLower(value)
			if !isClientType(f.typ) {
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
		f.addr != "" && addrOf(o) != f.addr,
		f.laddr != "" && laddrOf(o) != f.laddr,
		f.user != "" && f.user != userOf(o),
		f.maxAge != 0 && time.Since(o.born) < f.maxAge:
		return false
	}
	return f.typ == "" || isType(o, f.typ)
}

var errKilled = errors.New("killed by CLIENT KILL")

// clientKill answers CLIENT KILL addr:port and CLIENT KILL <filter> ….
func clientKill(c *session, args [][]byte) {
	old := len(args) == 3
	f := killFilter{addr: string(args[2])}
	if !old {
		var err error
		if f, err = parseKill(args[2:], c.srv.knows); err != nil {
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

// unblockPatience bounds how long CLIENT UNBLOCK waits until the other client is told.
const unblockPatience = 5 * time.Second

// clientUnblock answers CLIENT UNBLOCK id [TIMEOUT | ERROR].
func clientUnblock(c *session, args [][]byte) {
	how := proxy.UnblockTimeout
	switch {
	case len(args) > 4:
		c.fail("ERR unknown subcommand or wrong number of arguments for '" + string(args[1]) + "'. Try CLIENT HELP.")
		return
	case len(args) == 3 || bytes.EqualFold(args[3], []byte("TIMEOUT")):
	case bytes.EqualFold(args[3], []byte("ERROR")):
		how = proxy.UnblockError
	default:
		c.fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	id, ok := resp.ParseInt(args[2])
	if !ok {
		c.fail("ERR value is not an integer or out of range")
		return
	}
	if !c.catchUp() { // what was sent before may be what the other waits for
		return
	}
	n := int64(0)
	if o := c.srv.client(id); o != nil {
		ctx, cancel := context.WithTimeout(c.ctx, unblockPatience)
		defer cancel()
		unblocked, err := o.unblock(ctx, how)
		if err != nil {
			c.fail("ERR redoubt: the client could not be unblocked: " + err.Error() + ": close it with CLIENT KILL ID instead")
			return
		}
		if unblocked {
			n = 1
		}
	}
	c.scratch = resp.AppendInt(c.scratch[:0], n)
	c.reply(c.scratch)
}
