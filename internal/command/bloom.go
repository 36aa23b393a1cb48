package command

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

func bloomScripts() []*redoubt.Script { return wire.ChainScripts() }

// The error texts of the RedisBloom module. Some have no ERR.
const (
	bfNotFound    = "ERR not found"
	bfExists      = "ERR item exists"
	bfFull        = "ERR non scaling filter is full"
	bfNoLink      = "ERR problem inserting into filter"
	bfBadData     = "ERR received bad data"
	bfUnknownPart = "ERR invalid offset - no link found"
	bfTooLong     = "ERR invalid chunk - Too big for current filter"
	bfUnknown     = "Unknown argument received"
	bfBadField    = "Invalid information value"
	bfTooLarge    = "ERR redoubt: the filter would take more than 512 MB, or have more than 10000 links"
	bfLongPart    = "ERR redoubt: a part of more than 2 MiB holds up the server when it is written in one step, as inside MULTI and in another database than its own"
	bfTooMuch     = "ERR redoubt: so many items hold up the server when they are one step, as inside MULTI and in another database than its own: send fewer"
	bfOldDump     = "ERR redoubt: the dump is of a filter from before RedisBloom 1.1"
	bfCapacity    = 1 << 30
	bfExpansion   = 32768
)

// A bfInsert adds items to a chain.
type bfInsert struct {
	spec   wire.ChainSpec
	create bool
	items  wire.ChainItems
}

// bfDefault is the chain that BF.ADD makes.
var bfDefault = wire.ChainSpec{ErrorRate: 0.01, Capacity: 100, Expansion: 2}

// Asked counts the calls of BF commands for one key: calls that make a filter or add items, and calls that
// look items up.
type Asked struct{ Adds, Looks uint64 }

// Filters returns the keys that BF commands have used in this process, about a thousand at most.
func (env *Env) Filters() map[string]Asked {
	all := map[string]Asked{}
	env.filters.all(func(key string, n [2]uint64) {
		all[key] = Asked{n[0], n[1]}
	})
	return all
}

// number parses a double as Redis does.
func number(b []byte) (float64, bool) {
	s := string(b)
	if strings.ContainsRune(s, '_') {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && strings.HasPrefix(strings.ToLower(strings.TrimLeft(s, "+-")), "0x") {
		f, err = strconv.ParseFloat(s+"p0", 64) // C needs no exponent
	}
	return f, err == nil && !math.IsNaN(f)
}

// indexOf returns the place of an option. Like the module it searches all arguments, the key included.
func indexOf(args [][]byte, word string) int {
	for i, a := range args {
		if bytes.EqualFold(a, []byte(word)) {
			return i
		}
	}
	return -1
}

func planReserveFilter(env *Env, args [][]byte) Plan {
	if len(args) > 7 {
		return Plan{Err: wrongArity("bf.reserve")}
	}
	s := bfDefault
	var ok bool
	switch s.ErrorRate, ok = number(args[2]); {
	case !ok:
		return Plan{Err: "ERR bad error rate"}
	case s.ErrorRate <= 0 || s.ErrorRate >= 1:
		return Plan{Err: "ERR error rate must be in the range (0.000000, 1.000000)"}
	}
	switch s.Capacity, ok = integer(args[3]); {
	case !ok:
		return Plan{Err: "ERR bad capacity"}
	case s.Capacity < 1 || s.Capacity > bfCapacity:
		return Plan{Err: "ERR capacity must be in the range [1, 1073741824]"}
	}
	s.Fixed = indexOf(args, "NONSCALING") >= 0
	if at := indexOf(args, "EXPANSION"); at >= 0 {
		if at+1 == len(args) {
			return Plan{Err: "ERR no expansion"}
		}
		if s.Expansion, ok = integer(args[at+1]); !ok {
			return Plan{Err: "ERR bad expansion"}
		}
		switch {
		case s.Expansion == 0:
			s.Fixed = true
		case s.Fixed:
			return Plan{Err: "Nonscaling filters cannot expand"}
		}
		if s.Expansion < 0 || s.Expansion > bfExpansion {
			return Plan{Err: "ERR expansion must be in the range [0, 32768]"}
		}
	}
	s.ErrorRate = min(s.ErrorRate, wire.MaxChainErrorRate)
	key := string(args[1])
	cmd, err := wire.ChainReserveCmd(key, s)
	if err != nil {
		return Plan{Err: bfTooLarge}
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		switch status, err := wire.ReadStatus(r); {
		case err != nil:
			return appendError(dst, err)
		case status == wire.ChainMissing:
			return resp.AppendError(dst, bfExists)
		case status == wire.ChainWrongType:
			return resp.AppendError(dst, wrongType)
		}
		env.filters.add(key, 0)
		return resp.AppendSimple(dst, "OK")
	}}
}

// planInsert parses BF.INSERT, by the first letters of the options as the module does.
func planInsert(env *Env, args [][]byte) Plan {
	in := bfInsert{spec: bfDefault, create: true}
	letter := func(a []byte, i int) byte {
		if i >= len(a) {
			return 0
		}
		return a[i] | 0x20
	}
	i := 2
	for i < len(args) && in.items == nil {
		option := args[i]
		i++
		switch letter(option, 0) {
		case 'i':
			if i == len(args) {
				return Plan{Err: wrongArity("bf.insert")}
			}
			in.items = wire.HashItems(args[i:])
		case 'e', 'c':
			if i == len(args) {
				return Plan{Err: wrongArity("bf.insert")}
			}
			value := args[i]
			i++
			var ok bool
			switch {
			case letter(option, 0) == 'c':
				if in.spec.Capacity, ok = integer(value); !ok || in.spec.Capacity < 1 || in.spec.Capacity > bfCapacity {
					return Plan{Err: "Bad capacity"}
				}
			case letter(option, 1) == 'r':
				if in.spec.ErrorRate, ok = number(value); !ok || in.spec.ErrorRate <= 0 || in.spec.ErrorRate >= 1 {
					return Plan{Err: "Bad error rate"}
				}
				in.spec.ErrorRate = min(in.spec.ErrorRate, wire.MaxChainErrorRate)
			default:
				if in.spec.Expansion, ok = integer(value); !ok || in.spec.Expansion < 0 || in.spec.Expansion > bfExpansion {
					return Plan{Err: "Bad expansion"}
				}
			}
		case 'n':
			if letter(option, 2) == 'c' {
				in.create = false
			} else {
				in.spec.Fixed = true
			}
		default:
			return Plan{Err: bfUnknown}
		}
	}
	if in.items == nil {
		return Plan{Err: wrongArity("bf.insert")}
	}
	in.spec.Fixed = in.spec.Fixed || in.spec.Expansion == 0
	return in.plan(env, args[1], appendItems)
}

// plan adds the items. Several items may be too many for one script.
func (in bfInsert) plan(env *Env, name []byte, reply func(dst []byte, p resp.Protocol, became []int64) []byte) Plan {
	key := string(name)
	var spec *wire.ChainSpec
	if in.create {
		spec = &in.spec
	}
	cmd, err := wire.ChainInsertCmd(key, spec, in.items)
	if err != nil {
		return Plan{Err: bfTooLarge}
	}
	answer := func(dst []byte, p resp.Protocol, status wire.ChainStatus, became []int64) []byte {
		switch {
		case status == wire.ChainTooMuch:
			return resp.AppendError(dst, bfTooMuch)
		case status == wire.ChainDone && len(became) > 0:
			env.filters.add(key, 0)
			return reply(dst, p, became)
		}
		return appendNoChain(dst, status)
	}
	once := Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		status, became, err := wire.ReadInserted(r)
		if err != nil {
			return appendError(dst, err)
		}
		return answer(dst, p, status, became)
	}}
	if len(in.items) == 1 {
		return once
	}
	return Plan{
		Wait: func(ctx context.Context) Outcome {
			status, became, err := env.chains.Insert(ctx, key, spec, in.items)
			return Outcome{Append: func(dst []byte, p resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				return answer(dst, p, status, became)
			}}
		},
		Instead: func() Plan { return once },
		Whole:   true,
	}
}

// appendNoChain appends the error of a missing filter.
func appendNoChain(dst []byte, status wire.ChainStatus) []byte {
	if status == wire.ChainMissing {
		return resp.AppendError(dst, bfNotFound)
	}
	return resp.AppendError(dst, wrongType)
}

func appendItems(dst []byte, p resp.Protocol, became []int64) []byte {
	dst = resp.AppendArray(dst, len(became))
	for i := range became {
		dst = appendItemAdded(dst, p, became[i:])
	}
	return dst
}

// appendItemAdded appends the reply for the first item.
func appendItemAdded(dst []byte, p resp.Protocol, became []int64) []byte {
	switch became[0] {
	case wire.ItemFull:
		return resp.AppendError(dst, bfFull)
	case wire.ItemNoLink:
		return resp.AppendError(dst, bfNoLink)
	case wire.ItemTooLong:
		return resp.AppendError(dst, bfTooLarge)
	}
	return resp.AppendBool(dst, p, became[0] == wire.ItemNew)
}

func planLook(env *Env, args [][]byte, reply func(dst []byte, p resp.Protocol, in []int64) []byte) Plan {
	key, items := string(args[1]), wire.HashItems(args[2:])
	cmd := wire.ChainExistsCmd(key, items)
	once := Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		switch status, in, err := wire.ReadExists(r, len(items)); {
		case err != nil:
			return appendError(dst, err)
		case status == wire.ChainTooMuch:
			return resp.AppendError(dst, bfTooMuch)
		default:
			env.filters.add(key, 1)
			return reply(dst, p, in)
		}
	}}
	if len(items) == 1 {
		return once
	}
	return Plan{
		Wait: func(ctx context.Context) Outcome {
			in, err := env.chains.Exists(ctx, key, items)
			return Outcome{Append: func(dst []byte, p resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				env.filters.add(key, 1)
				return reply(dst, p, in)
			}}
		},
		Instead: func() Plan { return once },
		Whole:   true,
	}
}

// planHeader reads the header of a filter and passes it to reply.
func planHeader(args [][]byte, reply func(dst []byte, p resp.Protocol, i wire.ChainInfo) []byte) Plan {
	cmd := wire.ChainHeaderCmd(string(args[1]))
	return Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		switch status, info, err := wire.ReadHeader(r); {
		case err != nil:
			return appendError(dst, err)
		case status != wire.ChainDone:
			return appendNoChain(dst, status)
		default:
			return reply(dst, p, info)
		}
	}}
}

func planFilterInfo(_ *Env, args [][]byte) Plan {
	if len(args) > 3 {
		return Plan{Err: wrongArity("bf.info")}
	}
	field := ""
	if len(args) == 3 {
		field = string(args[2])
	}
	return planHeader(args, func(dst []byte, p resp.Protocol, c wire.ChainInfo) []byte {
		all := []struct {
			word, name string
			n          int64
		}{
			{"capacity", "Capacity", c.Capacity},
			{"size", "Size", c.Size},
			{"filters", "Number of filters", int64(c.Links)},
			{"items", "Number of items inserted", c.Items},
			{"expansion", "Expansion rate", c.Expansion},
		}
		value := func(i int) {
			if all[i].word == "expansion" && c.Fixed {
				dst = resp.AppendNull(dst, p)
				return
			}
			dst = resp.AppendInt(dst, all[i].n)
		}
		if len(args) == 3 {
			for i, f := range all {
				if !strings.EqualFold(f.word, field) {
					continue
				}
				if p == resp.RESP3 {
					dst = resp.AppendSimple(resp.AppendMap(dst, p, 1), f.name)
				} else {
					dst = resp.AppendArray(dst, 1)
				}
				value(i)
				return dst
			}
			return resp.AppendError(dst, bfBadField)
		}
		dst = resp.AppendMap(dst, p, len(all))
		for i, f := range all {
			dst = resp.AppendSimple(dst, f.name)
			value(i)
		}
		return dst
	})
}

func planDump(_ *Env, args [][]byte) Plan {
	iter, ok := integer(args[2])
	if !ok || iter == 0 {
		return planHeader(args, func(dst []byte, _ resp.Protocol, c wire.ChainInfo) []byte {
			if !ok { // the module checks this after it has found a filter
				return resp.AppendError(dst, "Second argument must be numeric")
			}
			return resp.AppendBulk(resp.AppendInt(resp.AppendArray(dst, 2), 1), c.Header)
		})
	}
	cmd := wire.ChainReadCmd(string(args[1]), iter)
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		status, data, err := wire.ReadPart(r)
		next := iter + int64(len(data))
		switch {
		case err != nil:
			return appendError(dst, err)
		case status == wire.ChainUnknownPart:
			next = 0
		case status != wire.ChainDone:
			return appendNoChain(dst, status)
		}
		return resp.AppendBulk(resp.AppendInt(resp.AppendArray(dst, 2), next), data)
	}}
}

func planLoad(env *Env, args [][]byte) Plan {
	iter, ok := integer(args[2])
	if !ok {
		return Plan{Err: "ERR Second argument must be numeric"}
	}
	size := int64(len(args[3]))
	if size > wire.MaxChainBytes {
		return Plan{Err: bfTooLong}
	}
	key, data := string(args[1]), string(args[3])
	cmd, fault := wire.ChainLoadCmd(key, iter, data)
	answer := func(dst []byte, status wire.ChainStatus) []byte {
		switch {
		case status == wire.ChainMissing && iter == 1:
			switch {
			case errors.Is(fault, wire.ErrTooLarge):
				return resp.AppendError(dst, bfTooLarge)
			case errors.Is(fault, wire.ErrOldDump):
				return resp.AppendError(dst, bfOldDump)
			}
			return resp.AppendError(dst, bfBadData)
		case status == wire.ChainMissing || status == wire.ChainWrongType:
			return appendNoChain(dst, status)
		case status == wire.ChainMade:
			env.filters.add(key, 0)
			return resp.AppendSimple(dst, "OK")
		case iter <= 0 || iter < size:
			return resp.AppendError(dst, bfBadData)
		case status == wire.ChainUnknownPart:
			return resp.AppendError(dst, bfUnknownPart)
		case status == wire.ChainTooLong:
			return resp.AppendError(dst, bfTooLong)
		}
		env.filters.add(key, 0)
		return resp.AppendSimple(dst, "OK")
	}
	if wire.LoadsAtOnce(iter, data) {
		return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
			status, _, err := wire.ReadPart(r)
			if err != nil {
				return appendError(dst, err)
			}
			return answer(dst, status)
		}}
	}
	return Plan{
		Wait: func(ctx context.Context) Outcome {
			status, err := env.chains.Load(ctx, key, iter, data)
			return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				return answer(dst, status)
			}}
		},
		Instead: func() Plan { return Plan{Err: bfLongPart} },
		Whole:   true,
	}
}

func wrongArity(name string) string {
	return "ERR wrong number of arguments for '" + name + "' command"
}
