package server

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// commandInfo answers COMMAND: the back end's answer with the extension
// commands added. A back end that does not know COMMAND leaves ours.
func commandInfo(c *session, args [][]byte, raw []byte) {
	c.as(Passed)
	sub := ""
	if len(args) > 1 {
		sub = strings.ToLower(string(args[1]))
	}
	p, table := c.protocol, c.srv.own(c.ctx)
	switch {
	case len(args) == 1:
		c.carrier.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, raw, len(table), func(dst []byte) []byte { return appendInfos(dst, p, table) })
		})
	case sub == "count" && len(args) == 2:
		c.carrier.forward(raw, func(dst, raw []byte) []byte {
			n, ok := int64(0), false
			if nl := bytes.IndexByte(raw, '\n'); nl > 2 && (raw[0] == ':' || raw[0] == '*') {
				n, ok = resp.ParseInt(raw[1 : nl-1])
			}
			if !ok && !unknownCommand(raw) {
				return append(dst, raw...)
			}
			return resp.AppendInt(dst, n+int64(len(table)))
		})
	case sub == "info":
		commandInfoOf(c, args, raw)
	case sub == "docs":
		wanted := table
		if len(args) > 2 {
			wanted = named(table, args[2:])
		}
		c.carrier.forward(raw, func(dst, raw []byte) []byte {
			if !isDocs(raw) {
				raw = resp.AppendMap(nil, p, 0)
			}
			n := len(wanted)
			if raw[0] != '%' {
				n *= 2 // a map in RESP2
			}
			return addElements(dst, raw, n, func(dst []byte) []byte {
				for _, e := range wanted {
					dst = e.AppendDocs(dst, p)
				}
				return dst
			})
		})
	case sub == "list":
		wanted := filtered(table, args[2:])
		c.carrier.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, firsts(raw), len(wanted), func(dst []byte) []byte {
				for _, e := range wanted {
					dst = resp.AppendBulk(dst, strings.ToLower(e.Name))
				}
				return dst
			})
		})
	case (sub == "getkeys" || sub == "getkeysandflags") && len(args) > 2 && command.Lookup(string(args[2])) != nil:
		getKeys(c, command.Lookup(string(args[2])), args[2:], sub == "getkeysandflags")
	default:
		c.carrier.forward(raw, nil)
	}
}

func unknownCommand(raw []byte) bool { return bytes.HasPrefix(raw, []byte("-ERR unknown command")) }

func appendInfos(dst []byte, p resp.Protocol, of []*command.Command) []byte {
	for _, e := range of {
		dst = e.AppendInfo(dst, p)
	}
	return dst
}

// named returns the commands of table among names, each once.
func named(table []*command.Command, names [][]byte) []*command.Command {
	var found []*command.Command
	for _, n := range names {
		if e := command.Lookup(string(n)); slices.Contains(table, e) && !slices.Contains(found, e) {
			found = append(found, e)
		}
	}
	return found
}

// filtered applies COMMAND LIST's FILTERBY MODULE | ACLCAT | PATTERN.
func filtered(table []*command.Command, args [][]byte) []*command.Command {
	if len(args) == 0 {
		return table
	}
	if len(args) != 3 {
		return nil // the back end says what is wrong
	}
	value := string(args[2])
	what := strings.ToLower(string(args[1]))
	return slices.DeleteFunc(slices.Clone(table), func(e *command.Command) bool {
		switch what {
		case "module":
			return !strings.EqualFold(value, "redoubt")
		case "aclcat":
			return !e.InCategory(value)
		case "pattern":
			return !glob.MatchFold(args[2], []byte(e.Name))
		}
		return true
	})
}

// addElements appends an aggregate with n more elements, or pairs, than raw. An
// error goes through, unless the back end does not know the command: then there
// are only ours.
func addElements(dst, raw []byte, n int, more func(dst []byte) []byte) []byte {
	if unknownCommand(raw) {
		raw = []byte("*0\r\n")
	}
	nl := bytes.IndexByte(raw, '\n')
	if nl < 2 || raw[0] != '*' && raw[0] != '%' && raw[0] != '~' {
		return append(dst, raw...)
	}
	had, ok := resp.ParseInt(raw[1 : nl-1])
	if !ok || had < 0 {
		return append(dst, raw...)
	}
	dst = append(dst, raw[0])
	dst = strconv.AppendInt(dst, had+int64(n), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, raw[nl+1:]...)
	return more(dst)
}

// Some servers that speak RESP answer every COMMAND with the whole table,
// whatever it asks. The functions below make of that what was asked for.

// isDocs reports whether raw may be an answer to COMMAND DOCS, or an error.
func isDocs(raw []byte) bool {
	if raw[0] == '-' {
		return !unknownCommand(raw)
	}
	nl := bytes.IndexByte(raw, '\n')
	return nl > 0 && (len(raw) == nl+1 || raw[nl+1] == '$' || raw[nl+1] == '+')
}

// elements calls f with each element of an array.
func elements(raw []byte, f func(element []byte)) {
	nl := bytes.IndexByte(raw, '\n')
	if nl < 0 || raw[0] != '*' {
		return
	}
	var scanner resp.ReplyScanner
	for rest := raw[nl+1:]; len(rest) > 0; {
		n, err := scanner.Next(rest)
		if err != nil || n == 0 {
			return
		}
		f(rest[:n])
		rest = rest[n:]
	}
}

// first returns the first element of an array as it is on the wire.
func first(raw []byte) (found []byte) {
	elements(raw, func(element []byte) {
		if found == nil {
			found = element
		}
	})
	return found
}

// firsts returns an array with each element that is itself an array replaced
// by its first element: the names of a table of commands.
func firsts(raw []byte) []byte {
	nl := bytes.IndexByte(raw, '\n')
	if raw[0] != '*' || nl+1 >= len(raw) || raw[nl+1] != '*' {
		return raw
	}
	names := bytes.Clone(raw[:nl+1])
	elements(raw, func(element []byte) { names = append(names, first(element)...) })
	return names
}

// pick returns an array of the entries of a table of commands that have the
// given names, and nulls for the others.
func pick(raw []byte, names [][]byte, p resp.Protocol) []byte {
	entries := make(map[string][]byte)
	elements(raw, func(element []byte) {
		if v, _, err := resp.Parse(first(element)); err == nil {
			if name, ok := v.(string); ok {
				entries[strings.ToLower(name)] = element
			}
		}
	})
	picked := resp.AppendArray(nil, len(names))
	for _, name := range names {
		if e := entries[strings.ToLower(string(name))]; e != nil {
			picked = append(picked, e...)
		} else {
			picked = resp.AppendNullArray(picked, p)
		}
	}
	return picked
}

// commandInfoOf answers COMMAND INFO [name …]: the back end answers null for
// names that it does not know, ours among them.
func commandInfoOf(c *session, args [][]byte, raw []byte) {
	p, table := c.protocol, c.srv.own(c.ctx)
	if len(args) == 2 {
		c.carrier.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, raw, len(table), func(dst []byte) []byte { return appendInfos(dst, p, table) })
		})
		return
	}
	elements := make([]element, len(args)-2)
	for i, name := range args[2:] {
		if e := command.Lookup(string(name)); slices.Contains(table, e) {
			elements[i].change = func(dst, _ []byte) []byte { return e.AppendInfo(dst, p) }
		}
	}
	names := make([][]byte, len(args)-2)
	for i, name := range args[2:] {
		names[i] = bytes.Clone(name)
	}
	c.carrier.forward(raw, func(dst, raw []byte) []byte {
		if unknownCommand(raw) || raw[0] == '*' && !bytes.HasPrefix(raw, resp.AppendArray(nil, len(names))) {
			raw = pick(raw, names, p)
		}
		return changeElements(dst, raw, elements)
	})
}

// getKeys answers COMMAND GETKEYS and GETKEYSANDFLAGS for an extension command.
func getKeys(c *session, e *command.Command, args [][]byte, withFlags bool) { //nolint:revive // two commands in one
	answer := []byte{}
	keys := e.Keys(len(args))
	switch {
	case e.CheckArity(len(args)) != "":
		answer = resp.AppendError(answer, "ERR Invalid number of arguments specified for command")
	case len(keys) == 0:
		answer = resp.AppendError(answer, "ERR The command has no key arguments")
	default:
		answer = resp.AppendArray(answer, len(keys))
		for _, at := range keys {
			if withFlags {
				answer = resp.AppendArray(answer, 2)
			}
			answer = resp.AppendBulk(answer, args[at])
			if withFlags {
				answer = e.AppendAccess(answer, c.protocol)
			}
		}
	}
	if c.tx.active {
		c.queueAnswer(answer)
		return
	}
	c.reply(answer)
}
