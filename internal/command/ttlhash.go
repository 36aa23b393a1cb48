package command

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
	"github.com/redoubt-go/redoubt/ttlhash"
)

func hashScripts() []*redoubt.Script { return wire.Scripts() }

const maxHashTTL = int64(ttlhash.MaxTTL / time.Millisecond)

var (
	hashName  = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the hash: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	hashField = Arg{Name: "field", Type: "string", Summary: fmt.Sprintf("at most %d bytes", ttlhash.MaxField)}
	hashTTL   = Arg{Name: "ttl", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("time until it expires, by the server's clock: 1 to %d ms; -1: for ever", maxHashTTL)}

	docHashTTL    = fmt.Sprintf("`ERR redoubt: ttl_ms is …; want 1 to %d, or -1`", maxHashTTL)
	docHashBytes  = "`ERR redoubt: these fields have more than 2 MiB together: ask for fewer`"
	docHashMany   = "`ERR redoubt: these fields have more than 1 MiB together: name fewer`"
	docHashValue  = fmt.Sprintf("`ERR redoubt: value has … bytes; want at most %d`", ttlhash.MaxValue)
	docHashField  = fmt.Sprintf("`ERR redoubt: field has … bytes; want at most %d`", ttlhash.MaxField)
	docHashFields = fmt.Sprintf("`ERR redoubt: … fields; want at most %d`", ttlhash.MaxTogether)
)

// hashErrors appends the errors that all commands of hashes share.
func hashErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: another program wrote the hash's key")
}

// hashCommand fills in the fields that all commands of hashes share.
func hashCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "ttlhash"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	return &c
}

var hashCommands = []*Command{
	hashCommand(Command{
		Name:       "TTLHASH.SET",
		Summary:    "Sets a field of a hash for a time.",
		Complexity: "O(log(N)) with N fields, and for at most 32 that have expired",
		Arity:      -5,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			hashName, hashField, {Name: "value", Type: "string", Summary: fmt.Sprintf("any bytes, at most %d", ttlhash.MaxValue)}, hashTTL,
			{Name: "condition", Type: "oneof", Use: Optional, Summary: "a condition", Args: []Arg{
				{Name: "nx", Type: "pure-token", Token: "NX", Summary: "only if the hash does not have the field"},
				{Name: "xx", Type: "pure-token", Token: "XX", Summary: "only if the hash has the field"},
			}},
		},
		Reply:    "Integer: 1 when the field is set, 0 when the condition was not met.",
		Errors:   hashErrors(docSyntax, docInteger, docHashTTL, docHashField, docHashValue),
		Examples: []Example{{"TTLHASH.SET sessions ann token-1 1800000", "(integer) 1"}, {"TTLHASH.SET sessions ann token-2 1800000 NX", "(integer) 0"}},
		Notes: []string{
			"It works on any server. A server that can expire fields does so; on others the value carries its deadline, later writes delete expired fields, and the keys expire with the last deadline.",
		},
		Plan: planHashSet,
	}),
	hashCommand(Command{
		Name:       "TTLHASH.GET",
		Summary:    "Reads a field of a hash.",
		Complexity: "O(1)",
		Arity:      3,
		Flags:      []string{"readonly", "noscript", "fast"},
		Args:       []Arg{hashName, hashField},
		Reply:      "Bulk string: the value. Null when the hash does not have the field, or it has expired.",
		Errors:     hashErrors(docHashField),
		Examples:   []Example{{"TTLHASH.GET sessions ann", "\"token-1\""}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planHashRead(env, args, true, func(dst []byte, p resp.Protocol, items []*wire.Item) []byte {
				return appendHashValue(dst, p, items[0])
			})
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.MGET",
		Summary:    "Reads fields of a hash.",
		Complexity: "O(N) with N fields to read",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript", "fast"},
		Args:       []Arg{hashName, {Name: "field", Type: "string", Use: Multiple, Summary: hashField.Summary}},
		Reply:      "Array: for each field its value, or null.",
		Errors:     hashErrors(docHashField, docHashFields, docHashBytes),
		Examples:   []Example{{"TTLHASH.MGET sessions ann bob", "1) \"token-1\"\n2) (nil)"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planHashRead(env, args, true, func(dst []byte, p resp.Protocol, items []*wire.Item) []byte {
				dst = resp.AppendArray(dst, len(items))
				for _, i := range items {
					dst = appendHashValue(dst, p, i)
				}
				return dst
			})
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.TTL",
		Summary:    "Reads the remaining time of fields of a hash.",
		Complexity: "O(N) with N fields to read",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript", "fast"},
		Args:       []Arg{hashName, {Name: "field", Type: "string", Use: Multiple, Summary: hashField.Summary}},
		Reply:      "Array of integers, as HPTTL returns: for each field the milliseconds, -1 for ever, -2 when the hash does not have it.",
		Errors:     hashErrors(docHashField, docHashFields, docHashBytes),
		Examples:   []Example{{"TTLHASH.TTL sessions ann bob", "1) (integer) 1799991\n2) (integer) -2"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planHashRead(env, args, false, appendHashTTLs)
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.EXPIRE",
		Summary:    "Changes the deadline of a field of a hash.",
		Complexity: "O(log(N)) with N fields, and for at most 32 that have expired",
		Arity:      -4,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			hashName, hashField, hashTTL,
			{Name: "condition", Type: "oneof", Use: Optional, Summary: "a condition, as in HPEXPIRE", Args: []Arg{
				{Name: "nx", Type: "pure-token", Token: "NX", Summary: "only if it has no deadline"},
				{Name: "xx", Type: "pure-token", Token: "XX", Summary: "only if it has a deadline"},
				{Name: "gt", Type: "pure-token", Token: "GT", Summary: "only if the new deadline is later; no deadline is later than any"},
				{Name: "lt", Type: "pure-token", Token: "LT", Summary: "only if the new deadline is sooner"},
			}},
		},
		Reply:    "Integer: 1 when the field has the new deadline, 0 when the condition was not met, -2 when the hash does not have the field.",
		Errors:   hashErrors(docSyntax, docInteger, docHashTTL, docHashField),
		Examples: []Example{{"TTLHASH.EXPIRE sessions ann 3600000 GT", "(integer) 1"}},
		Plan:     planHashExpire,
	}),
	hashCommand(Command{
		Name:       "TTLHASH.DEL",
		Summary:    "Deletes fields of a hash.",
		Complexity: "O(N) with N fields to delete, and for at most 32 that have expired",
		Arity:      -3,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{hashName, {Name: "field", Type: "string", Use: Multiple, Summary: hashField.Summary}},
		Reply:      "Integer: how many the hash had.",
		Errors:     hashErrors(docHashField, docHashFields, docHashMany),
		Examples:   []Example{{"TTLHASH.DEL sessions ann", "(integer) 1"}},
		Notes:      []string{"Delete the whole hash by its keys: `UNLINK rd:{sessions}:ttlhash rd:{sessions}:ttlindex rd:{sessions}:ttlevents`."},
		Plan: func(env *Env, args [][]byte) Plan {
			fields, fault := hashFields(args[2:])
			if fault != "" {
				return Plan{Err: fault}
			}
			return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
				return wire.DeleteCmd(k, env.hashMode(k), false, fields)
			}, func(dst []byte, _ resp.Protocol, r redoubt.Reply) ([]byte, error) {
				n, _, _, err := wire.ReadDeleted(r)
				return resp.AppendInt(dst, int64(n)), err
			})
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.LEN",
		Summary:    "Counts the fields of a hash, after deleting up to 512 expired ones.",
		Complexity: "O(1), and for at most 512 that have expired",
		Arity:      2,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{hashName},
		Reply:      "Integer. It may count fields that expired within the last 64th of their TTL, or the last 128 ms if that is longer, and more where more than 512 had expired.",
		Errors:     hashErrors(),
		Before:     []string{"TTLHASH.SET sessions ann token-1 1800000"},
		Examples:   []Example{{"TTLHASH.LEN sessions", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planHashSweep(env, args, func(s wire.Sweep) int64 { return int64(s.Fields) })
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.SWEEP",
		Summary:    "Deletes up to 512 expired fields of a hash. Writes do so too; use it for hashes without writes.",
		Complexity: "O(N) with N expired fields, at most 512",
		Arity:      2,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{hashName},
		Reply:      "Integer: how many it deleted.",
		Errors:     hashErrors(),
		Examples:   []Example{{"TTLHASH.SWEEP sessions", "(integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planHashSweep(env, args, func(s wire.Sweep) int64 { return int64(s.Swept) })
		},
	}),
	hashCommand(Command{
		Name:       "TTLHASH.SCAN",
		Summary:    "Iterates over the fields of a hash, a page at a time, as HSCAN does.",
		Complexity: "O(1) for each page",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript"},
		Args: []Arg{
			hashName,
			{Name: "cursor", Type: "integer", Summary: "0 at first, then the cursor of the page before"},
			{Name: "pattern", Type: "string", Token: "MATCH", Use: Optional, Summary: "pattern of the fields, as in KEYS"},
			{Name: "count", Type: "integer", Token: "COUNT", Use: Optional, Summary: "about how many fields to read: 1 to 5000. Defaults to 10"},
		},
		Reply:    "Array: the cursor of the next page, 0 after the last; an array of fields and values in turn.",
		Errors:   hashErrors(docSyntax, docInteger, "`ERR invalid cursor`", "`ERR redoubt: COUNT is …; want 1 to 5000`"),
		Examples: []Example{{"TTLHASH.SCAN sessions 0", "1) \"0\"\n2) 1) \"ann\"\n   2) \"token-1\""}},
		Plan:     planHashScan,
	}),
}

// planHash plans a script on the hash of args[1].
func planHash(env *Env, args [][]byte, cmd func(wire.Keys) redoubt.Cmd, read func([]byte, resp.Protocol, redoubt.Reply) ([]byte, error)) Plan {
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	c := cmd(keys)
	return Plan{Cmd: &c, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		whole, err := read(dst, p, r)
		if err != nil {
			return appendError(dst, err)
		}
		return whole
	}}
}

// hashFields parses fields. fault is the text of an error reply.
func hashFields(args [][]byte) (fields []string, fault string) {
	if len(args) > ttlhash.MaxTogether {
		return nil, fmt.Sprintf("ERR redoubt: %d fields; want at most %d", len(args), ttlhash.MaxTogether)
	}
	for _, a := range args {
		if len(a) > ttlhash.MaxField {
			return nil, fmt.Sprintf("ERR redoubt: field has %d bytes; want at most %d", len(a), ttlhash.MaxField)
		}
		fields = append(fields, string(a))
	}
	return fields, ""
}

// hashDuration parses a TTL; -1 is for ever.
func hashDuration(b []byte) (time.Duration, string) {
	n, ok := integer(b)
	switch {
	case !ok:
		return 0, errInteger
	case n == -1:
		return ttlhash.Never, ""
	case n < 1 || n > maxHashTTL:
		return 0, fmt.Sprintf("ERR redoubt: ttl_ms is %d; want 1 to %d, or -1", n, maxHashTTL)
	}
	return time.Duration(n) * time.Millisecond, ""
}

func planHashSet(env *Env, args [][]byte) Plan {
	when := wire.InAnyCase
	switch {
	case len(args) == 6 && bytes.EqualFold(args[5], []byte("NX")):
		when = wire.Absent
	case len(args) == 6 && bytes.EqualFold(args[5], []byte("XX")):
		when = wire.Present
	case len(args) != 5:
		return Plan{Err: syntaxAt(args[5])}
	}
	fields, fault := hashFields(args[2:3])
	ttl, ttlFault := hashDuration(args[4])
	if fault == "" {
		fault = ttlFault
	}
	if fault == "" {
		fault = length("value", args[3], 0, ttlhash.MaxValue)
	}
	if fault != "" {
		return Plan{Err: fault}
	}
	items := []wire.Item{{Field: fields[0], Value: string(args[3]), TTL: ttl}}
	return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
		return wire.SetCmd(k, env.hashMode(k), when, items)
	}, func(dst []byte, _ resp.Protocol, r redoubt.Reply) ([]byte, error) {
		set, _, err := wire.ReadSet(r)
		if set {
			return resp.AppendInt(dst, 1), err
		}
		return resp.AppendInt(dst, 0), err
	})
}

var hashConditions = map[string]ttlhash.Condition{"NX": ttlhash.IfNone, "XX": ttlhash.IfSome, "GT": ttlhash.IfLater, "LT": ttlhash.IfSooner}

func planHashExpire(env *Env, args [][]byte) Plan {
	when := ttlhash.Always
	if len(args) > 4 {
		var ok bool
		if when, ok = hashConditions[string(bytes.ToUpper(args[4]))]; !ok || len(args) > 5 {
			return Plan{Err: syntaxAt(args[4])}
		}
	}
	fields, fault := hashFields(args[2:3])
	ttl, ttlFault := hashDuration(args[3])
	if fault == "" {
		fault = ttlFault
	}
	if fault != "" {
		return Plan{Err: fault}
	}
	return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
		return wire.ExpireCmd(k, env.hashMode(k), when, ttl, false, fields)
	}, func(dst []byte, _ resp.Protocol, r redoubt.Reply) ([]byte, error) {
		changes, _, _, err := wire.ReadExpired(r, 1)
		if err != nil {
			return nil, err
		}
		return resp.AppendInt(dst, int64(changes[0])), nil
	})
}

func planHashRead(env *Env, args [][]byte, want bool, reply func([]byte, resp.Protocol, []*wire.Item) []byte) Plan {
	fields, fault := hashFields(args[2:])
	if fault != "" {
		return Plan{Err: fault}
	}
	return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
		return wire.GetCmd(k, want, fields)
	}, func(dst []byte, p resp.Protocol, r redoubt.Reply) ([]byte, error) {
		items, err := wire.ReadGot(r)
		if err == nil && len(items) != len(fields) {
			err = fmt.Errorf("reply for %d fields, want %d", len(items), len(fields))
		}
		if err != nil {
			return nil, err
		}
		return reply(dst, p, items), nil
	})
}

func appendHashValue(dst []byte, p resp.Protocol, i *wire.Item) []byte {
	if i == nil {
		return resp.AppendNull(dst, p)
	}
	return resp.AppendBulk(dst, i.Value)
}

func appendHashTTLs(dst []byte, _ resp.Protocol, items []*wire.Item) []byte {
	dst = resp.AppendArray(dst, len(items))
	for _, i := range items {
		switch {
		case i == nil:
			dst = resp.AppendInt(dst, -2)
		case i.TTL == ttlhash.Never:
			dst = resp.AppendInt(dst, -1)
		default:
			dst = resp.AppendInt(dst, i.TTL.Milliseconds())
		}
	}
	return dst
}

func planHashSweep(env *Env, args [][]byte, answer func(wire.Sweep) int64) Plan {
	return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
		return wire.SweepCmd(k, env.hashMode(k))
	}, func(dst []byte, _ resp.Protocol, r redoubt.Reply) ([]byte, error) {
		s, err := wire.ReadSweep(r)
		return resp.AppendInt(dst, answer(s)), err
	})
}

func planHashScan(env *Env, args [][]byte) Plan {
	if _, err := strconv.ParseUint(string(args[2]), 10, 64); err != nil {
		return Plan{Err: "ERR invalid cursor"}
	}
	match, count := "*", int64(10)
	for rest := args[3:]; len(rest) > 0; rest = rest[2:] {
		switch {
		case len(rest) == 1:
			return Plan{Err: syntaxAt(rest[0])}
		case bytes.EqualFold(rest[0], []byte("MATCH")):
			match = string(rest[1])
		case bytes.EqualFold(rest[0], []byte("COUNT")):
			n, ok := integer(rest[1])
			if !ok {
				return Plan{Err: errInteger}
			}
			if n < 1 || n > 5000 {
				return Plan{Err: fmt.Sprintf("ERR redoubt: COUNT is %d; want 1 to 5000", n)}
			}
			count = n
		default:
			return Plan{Err: syntaxAt(rest[0])}
		}
	}
	cursor := string(args[2])
	return planHash(env, args, func(k wire.Keys) redoubt.Cmd {
		return wire.ScanCmd(k, cursor, match, count)
	}, func(dst []byte, _ resp.Protocol, r redoubt.Reply) ([]byte, error) {
		next, page, err := wire.ReadScanned(r)
		if err != nil {
			return nil, err
		}
		dst = resp.AppendArray(resp.AppendBulk(resp.AppendArray(dst, 2), next), len(page))
		for _, v := range page {
			text, _ := v.(string)
			dst = resp.AppendBulk(dst, text)
		}
		return dst, nil
	})
}

// hashMode returns the mode in which scripts write to a hash.
func (env *Env) hashMode(keys wire.Keys) wire.Mode {
	return wire.Mode{Native: env.hashes.KnownNative(keys)}
}
