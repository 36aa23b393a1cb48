package server

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/command"
	"github.com/redoubt-go/redoubt/resp"
)

// commandInfo answers COMMAND: the back end's answer with the extension
// commands added. A back end that does not know COMMAND leaves ours.
func (c *session) commandInfo(args [][]byte, raw []byte) {
	c.commands[Passed]++
	sub := ""
	if len(args) > 1 {
		sub = strings.ToLower(string(args[1]))
	}
	p, table := c.protocol, c.srv.table
	switch {
	case len(args) == 1:
		c.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, raw, len(table), func(dst []byte) []byte { return appendInfos(dst, p, table) })
		})
	case sub == "count" && len(args) == 2:
		c.forward(raw, func(dst, raw []byte) []byte {
			n, ok := int64(0), false
			if len(raw) > 3 && raw[0] == ':' {
				n, ok = resp.ParseInt(raw[1 : len(raw)-2])
			}
			if !ok && !unknownCommand(raw) {
				return append(dst, raw...)
			}
			return resp.AppendInt(dst, n+int64(len(table)))
		})
	case sub == "info":
		c.commandInfoOf(args, raw)
	case sub == "docs":
		wanted := table
		if len(args) > 2 {
			wanted = named(args[2:])
		}
		c.forward(raw, func(dst, raw []byte) []byte {
			n := len(wanted)
			if p == resp.RESP2 {
				n *= 2
			}
			return addElementsTo(dst, raw, p, n, func(dst []byte) []byte {
				for _, e := range wanted {
					dst = e.AppendDocs(dst, p)
				}
				return dst
			})
		})
	case sub == "list":
		wanted := filtered(table, args[2:])
		c.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, raw, len(wanted), func(dst []byte) []byte {
				for _, e := range wanted {
					dst = resp.AppendBulk(dst, strings.ToLower(e.Name))
				}
				return dst
			})
		})
	case (sub == "getkeys" || sub == "getkeysandflags") && len(args) > 2 && command.Lookup(string(args[2])) != nil:
		c.getKeys(command.Lookup(string(args[2])), args[2:], sub == "getkeysandflags")
	default:
		c.forward(raw, nil)
	}
}

func unknownCommand(raw []byte) bool { return bytes.HasPrefix(raw, []byte("-ERR unknown command")) }

func appendInfos(dst []byte, p resp.Protocol, of []*command.Command) []byte {
	for _, e := range of {
		dst = e.AppendInfo(dst, p)
	}
	return dst
}

// named returns the extension commands among names, each once.
func named(names [][]byte) []*command.Command {
	var found []*command.Command
	for _, n := range names {
		if e := command.Lookup(string(n)); e != nil && !slices.Contains(found, e) {
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
	return slices.DeleteFunc(slices.Clone(table), func(e *command.Command) bool {
		switch strings.ToLower(string(args[1])) {
		case "module":
			return !strings.EqualFold(value, "redoubt")
		case "aclcat":
			return !e.InCategory(value)
		case "pattern":
			match, err := path.Match(strings.ToLower(value), strings.ToLower(e.Name))
			return err != nil || !match
		}
		return true
	})
}

// addElements appends an array with n more elements than raw.
func addElements(dst, raw []byte, n int, more func(dst []byte) []byte) []byte {
	return addElementsTo(dst, raw, resp.RESP2, n, more)
}

// addElementsTo appends an array, or in RESP3 a map, with n more elements, or
// pairs, than raw. An error goes through, unless the back end does not know
// the command: then there are only ours.
func addElementsTo(dst, raw []byte, p resp.Protocol, n int, more func(dst []byte) []byte) []byte {
	had, body := int64(0), []byte(nil)
	typ := byte('*')
	if p == resp.RESP3 {
		typ = '%'
	}
	if nl := bytes.IndexByte(raw, '\n'); nl > 2 && (raw[0] == '*' || raw[0] == '%' || raw[0] == '~') {
		if count, ok := resp.ParseInt(raw[1 : nl-1]); ok && count >= 0 {
			typ, had, body = raw[0], count, raw[nl+1:]
		} else {
			return append(dst, raw...)
		}
	} else if !unknownCommand(raw) {
		return append(dst, raw...)
	}
	dst = append(dst, typ)
	dst = strconv.AppendInt(dst, had+int64(n), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, body...)
	return more(dst)
}

// commandInfoOf answers COMMAND INFO [name …]: the back end answers null for
// names that it does not know, ours among them.
func (c *session) commandInfoOf(args [][]byte, raw []byte) {
	p, table := c.protocol, c.srv.table
	if len(args) == 2 {
		c.forward(raw, func(dst, raw []byte) []byte {
			return addElements(dst, raw, len(table), func(dst []byte) []byte { return appendInfos(dst, p, table) })
		})
		return
	}
	changes := make([]translate, len(args)-2)
	for i, name := range args[2:] {
		if e := command.Lookup(string(name)); e != nil {
			changes[i] = func(dst, _ []byte) []byte { return e.AppendInfo(dst, p) }
		}
	}
	c.forward(raw, func(dst, raw []byte) []byte {
		if !unknownCommand(raw) {
			return changeElements(dst, raw, changes)
		}
		dst = resp.AppendArray(dst, len(changes))
		for _, change := range changes {
			if change == nil {
				dst = resp.AppendNullArray(dst, p)
			} else {
				dst = change(dst, nil)
			}
		}
		return dst
	})
}

// getKeys answers COMMAND GETKEYS and GETKEYSANDFLAGS for an extension command.
func (c *session) getKeys(e *command.Command, args [][]byte, withFlags bool) { //nolint:revive // two commands in one
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
