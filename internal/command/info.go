package command

import (
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// AppendInfo appends what COMMAND INFO says of c, in the shape of Redis 7.
func (c *Command) AppendInfo(dst []byte, p resp.Protocol) []byte {
	dst = resp.AppendArray(dst, 10)
	dst = resp.AppendBulk(dst, strings.ToLower(c.Name))
	dst = resp.AppendInt(dst, int64(c.Arity))
	dst = resp.AppendSet(dst, p, len(c.Flags))
	for _, f := range c.Flags {
		dst = resp.AppendSimple(dst, f)
	}
	dst = resp.AppendInt(dst, int64(c.FirstKey))
	dst = resp.AppendInt(dst, int64(c.LastKey))
	dst = resp.AppendInt(dst, int64(c.KeyStep))
	acl := c.Categories()
	dst = resp.AppendSet(dst, p, len(acl))
	for _, a := range acl {
		dst = resp.AppendSimple(dst, "@"+a)
	}
	dst = resp.AppendSet(dst, p, 0) // tips
	if c.FirstKey == 0 {
		dst = resp.AppendSet(dst, p, 0)
	} else {
		dst = resp.AppendSet(dst, p, 1)
		dst = c.appendKeySpec(dst, p)
	}
	return resp.AppendSet(dst, p, 0) // subcommands
}

func (c *Command) appendKeySpec(dst []byte, p resp.Protocol) []byte {
	text := func(s string) { dst = resp.AppendBulk(dst, s) }
	number := func(k string, n int) { text(k); dst = resp.AppendInt(dst, int64(n)) }
	dst = resp.AppendMap(dst, p, 3)
	text("flags")
	dst = c.AppendAccess(dst, p)
	text("begin_search")
	dst = resp.AppendMap(dst, p, 2)
	text("type")
	text("index")
	text("spec")
	dst = resp.AppendMap(dst, p, 1)
	number("index", c.FirstKey)
	text("find_keys")
	dst = resp.AppendMap(dst, p, 2)
	text("type")
	text("range")
	text("spec")
	dst = resp.AppendMap(dst, p, 3)
	last := c.LastKey
	if last > 0 {
		last -= c.FirstKey // relative to the first
	}
	number("lastkey", last)
	number("keystep", c.KeyStep)
	number("limit", 0)
	return dst
}

// AppendAccess appends what the command does with its keys, in the words of
// COMMAND GETKEYSANDFLAGS.
func (c *Command) AppendAccess(dst []byte, p resp.Protocol) []byte {
	access := []string{"RW", "access", "update"}
	if slices.Contains(c.Flags, "readonly") {
		access = []string{"RO", "access"}
	}
	dst = resp.AppendSet(dst, p, len(access))
	for _, a := range access {
		dst = resp.AppendSimple(dst, a)
	}
	return dst
}

// Categories returns the names of the ACL categories of c: its group, and the categories that follow from
// its flags.
func (c *Command) Categories() []string {
	var acl []string
	if slices.Contains(c.Flags, "readonly") {
		acl = append(acl, "read")
	}
	if slices.Contains(c.Flags, "write") {
		acl = append(acl, "write")
	}
	speed := "slow"
	if slices.Contains(c.Flags, "fast") {
		speed = "fast"
	}
	acl = append(acl, speed)
	if slices.Contains(c.Flags, "blocking") {
		acl = append(acl, "blocking")
	}
	return append(acl, c.Group)
}

// InCategory reports whether c belongs to an ACL category, named without @.
func (c *Command) InCategory(name string) bool {
	return slices.Contains(c.Categories(), strings.ToLower(name))
}

// AppendDocs appends the name of c and what COMMAND DOCS says of it, in the
// shape of Redis 7.
func (c *Command) AppendDocs(dst []byte, p resp.Protocol) []byte {
	dst = resp.AppendBulk(dst, strings.ToLower(c.Name))
	dst = resp.AppendMap(dst, p, 5)
	dst = resp.AppendBulk(dst, "summary")
	dst = resp.AppendBulk(dst, c.Summary)
	dst = resp.AppendBulk(dst, "since")
	dst = resp.AppendBulk(dst, c.Since)
	dst = resp.AppendBulk(dst, "group")
	dst = resp.AppendBulk(dst, c.Group)
	dst = resp.AppendBulk(dst, "complexity")
	dst = resp.AppendBulk(dst, c.Complexity)
	dst = resp.AppendBulk(dst, "arguments")
	return appendArgs(dst, p, c.Args)
}

func appendArgs(dst []byte, p resp.Protocol, args []Arg) []byte {
	dst = resp.AppendArray(dst, len(args))
	for _, a := range args {
		fields := 2
		for _, has := range []bool{a.Type == "key", a.Token != "", a.Summary != "", a.Use != Required, len(a.Args) > 0} {
			if has {
				fields++
			}
		}
		dst = resp.AppendMap(dst, p, fields)
		dst = resp.AppendBulk(dst, "name")
		dst = resp.AppendBulk(dst, a.wireName())
		dst = resp.AppendBulk(dst, "type")
		dst = resp.AppendBulk(dst, a.Type)
		if a.Type == "key" {
			dst = resp.AppendBulk(dst, "key_spec_index")
			dst = resp.AppendInt(dst, 0)
		}
		if a.Token != "" {
			dst = resp.AppendBulk(dst, "token")
			dst = resp.AppendBulk(dst, a.Token)
		}
		if a.Summary != "" {
			dst = resp.AppendBulk(dst, "summary")
			dst = resp.AppendBulk(dst, a.Summary)
		}
		switch a.Use {
		case Required:
		case Optional:
			dst = resp.AppendBulk(dst, "flags")
			dst = resp.AppendSet(dst, p, 1)
			dst = resp.AppendSimple(dst, "optional")
		case Multiple:
			dst = resp.AppendBulk(dst, "flags")
			dst = resp.AppendSet(dst, p, 1)
			dst = resp.AppendSimple(dst, "multiple")
		case Any:
			dst = resp.AppendBulk(dst, "flags")
			dst = resp.AppendSet(dst, p, 2)
			dst = resp.AppendSimple(dst, "optional")
			dst = resp.AppendSimple(dst, "multiple")
		}
		if len(a.Args) > 0 {
			dst = resp.AppendBulk(dst, "arguments")
			dst = appendArgs(dst, p, a.Args)
		}
	}
	return dst
}

// wireName is the name with its unit, like ttl_ms.
func (a Arg) wireName() string {
	if a.Unit == "" {
		return a.Name
	}
	return a.Name + "_" + a.Unit
}
