package server

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/resp"
)

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
		f.addr != "" && o.addr() != f.addr,
		f.laddr != "" && o.laddr() != f.laddr,
		f.user != "" && f.user != o.shownUser(),
		f.maxAge != 0 && time.Since(o.born) < f.maxAge:
		return false
	}
	return f.typ == "" || o.isType(f.typ)
}

var errKilled = errors.New("killed by CLIENT KILL")

// clientKill answers CLIENT KILL addr:port and CLIENT KILL <filter> ….
func (c *session) clientKill(args [][]byte) {
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
