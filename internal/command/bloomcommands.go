package command

import (
	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

var (
	bfKey  = Arg{Name: "key", Type: "key", Summary: "the key that holds the filter, used unchanged; any bytes"}
	bfItem = Arg{Name: "item", Type: "string", Summary: "any bytes"}

	docWrongType = "`" + wrongType + "`"
	docArity     = func(name string) string { return "`" + wrongArity(name) + "`" }
	docTooLarge  = "`" + bfTooLarge + "`: where the module would take more memory"
	docTooMuch   = "`" + bfTooMuch + "`"

	bfSpecArgs = []Arg{
		{Name: "expansion", Type: "integer", Token: "EXPANSION", Use: Optional, Summary: "the size of each filter as a multiple of the full filter before it: 0 to 32768. Defaults to 2; 0 is NONSCALING"},
		{Name: "nonscaling", Type: "pure-token", Token: "NONSCALING", Use: Optional, Summary: "refuse items when the filter is full"},
	}
	bfErrorRate = "how often an item that was never added may get 1, for all filters together: above 0 and below 1; more than 0.25 counts as 0.25"
	bfOnModule  = "If the back end has the RedisBloom module, it runs the command."
	bfSteps     = "Many items are added in steps, in their order, so that the back end serves other clients in between. They may see some of the items before all are in; after an error the items of earlier steps stay. Inside MULTI there is only one step, which takes some hundred items, or one item where there are 1,000 filters."
	bfNew       = "1 or true if the item is new; 0 or false if it may have been added before"
)

// bloomCommand sets the fields that all commands of RedisBloom share.
func bloomCommand(c Command) *Command {
	c.Since, c.Group, c.Module = "0.1.0", "bloom", true
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	c.Notes = append(c.Notes, bfOnModule)
	return &c
}

var bloomCommands = []*Command{
	bloomCommand(Command{
		Name:       "BF.RESERVE",
		Summary:    "Makes a Bloom filter, as the RedisBloom module does.",
		Complexity: "O(N) with N bytes of the filter, which the server fills with zeros",
		Arity:      -4,
		Flags:      []string{"write", "denyoom"},
		Args: append([]Arg{
			bfKey,
			{Name: "error_rate", Type: "double", Summary: bfErrorRate},
			{Name: "capacity", Type: "integer", Summary: "how many items the first filter is for: 1 to 1073741824"},
		}, bfSpecArgs...),
		Reply: "`OK`",
		Errors: []string{
			docArity("bf.reserve"), "`ERR bad error rate`", "`ERR error rate must be in the range (0.000000, 1.000000)`",
			"`ERR bad capacity`", "`ERR capacity must be in the range [1, 1073741824]`",
			"`ERR no expansion`", "`ERR bad expansion`", "`ERR expansion must be in the range [0, 32768]`", "`Nonscaling filters cannot expand`",
			"`" + bfExists + "`", docWrongType, docTooLarge,
		},
		Examples: []Example{{"BF.RESERVE seen 0.01 1000", "OK"}},
		Notes: []string{
			"A filter is one string under the client's key, with the bits, positions and sizes of the module; the module loads the parts of BF.SCANDUMP, and the reverse. TYPE is `string`, and `MBbloom--` in the module, so DUMP and RESTORE don't work between the two.",
			"A string holds 512 MB, which is enough for 448,000,000 items at an error rate of 0.01 in a filter that does not scale. A server is blocked while it creates such a string or reallocates a growing one: about 0.6 ms per MiB. Package `bloom` for Go holds more items in less memory.",
		},
		Plan: planReserveFilter,
	}),
	bloomCommand(Command{
		Name:       "BF.ADD",
		Summary:    "Adds an item to a Bloom filter and makes the filter if there is none.",
		Complexity: "O(K*N) with K bits an item and N filters",
		Arity:      3,
		Flags:      []string{"write", "denyoom"},
		Args:       []Arg{bfKey, bfItem},
		Reply:      "Integer, in RESP3 a boolean: " + bfNew + ".",
		Errors:     []string{"`" + bfFull + "`", "`" + bfNoLink + "`: the next filter would be too small, or its error rate 0", docWrongType, docTooLarge},
		Examples:   []Example{{"BF.ADD seen ann", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return bfInsert{bfDefault, true, wire.HashItems(args[2:])}.plan(env, args[1], appendItemAdded)
		},
	}),
	bloomCommand(Command{
		Name:       "BF.MADD",
		Summary:    "Adds items to a Bloom filter and makes the filter if there is none.",
		Complexity: "O(M*K*N) with M items, K bits an item and N filters",
		Arity:      -3,
		Flags:      []string{"write", "denyoom"},
		Args:       []Arg{bfKey, {Name: "item", Type: "string", Use: Multiple, Summary: bfItem.Summary}},
		Reply:      "Array of an integer, in RESP3 a boolean, for each item: " + bfNew + ". It ends with an error at the first item that has no room.",
		Errors:     []string{"`" + bfFull + "`", "`" + bfNoLink + "`", docWrongType, docTooLarge, docTooMuch},
		Notes:      []string{bfSteps},
		Examples:   []Example{{"BF.MADD seen bob bob", "1) (integer) 1\n2) (integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return bfInsert{bfDefault, true, wire.HashItems(args[2:])}.plan(env, args[1], appendItems)
		},
	}),
	bloomCommand(Command{
		Name:       "BF.INSERT",
		Summary:    "Adds items to a Bloom filter, and makes the filter with the given settings if there is none.",
		Complexity: "O(M*K*N) with M items, K bits an item and N filters",
		Arity:      -4,
		Flags:      []string{"write", "denyoom"},
		Args: append(append([]Arg{
			bfKey,
			{Name: "capacity", Type: "integer", Token: "CAPACITY", Use: Optional, Summary: "how many items the first filter is for: 1 to 1073741824. Defaults to 100"},
			{Name: "error", Type: "double", Token: "ERROR", Use: Optional, Summary: bfErrorRate + ". Defaults to 0.01"},
		}, bfSpecArgs...),
			Arg{Name: "nocreate", Type: "pure-token", Token: "NOCREATE", Use: Optional, Summary: "add only to an existing filter"},
			Arg{Name: "items", Type: "pure-token", Token: "ITEMS", Summary: "the items follow"},
			Arg{Name: "item", Type: "string", Use: Multiple, Summary: bfItem.Summary},
		),
		Reply: "Array of an integer, in RESP3 a boolean, for each item, as the reply to BF.MADD.",
		Errors: []string{
			docArity("bf.insert"), "`Bad capacity`", "`Bad error rate`", "`Bad expansion`", "`" + bfUnknown + "`",
			"`" + bfNotFound + "`: with NOCREATE", "`" + bfFull + "`", "`" + bfNoLink + "`", docWrongType, docTooLarge, docTooMuch,
		},
		Notes:    []string{bfSteps},
		Examples: []Example{{"BF.INSERT seen CAPACITY 1000 ITEMS ann eve", "1) (integer) 0\n2) (integer) 1"}},
		Plan:     planInsert,
	}),
	bloomCommand(Command{
		Name:       "BF.EXISTS",
		Summary:    "Looks for an item in a Bloom filter.",
		Complexity: "O(K*N) with K bits an item and N filters",
		Arity:      3,
		Flags:      []string{"readonly", "fast"},
		Args:       []Arg{bfKey, bfItem},
		Reply:      "Integer, in RESP3 a boolean: 1 or true if the item may have been added; 0 or false if it was not, and also if there is no filter or the key holds something else.",
		Examples:   []Example{{"BF.EXISTS seen ann", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLook(env, args, func(dst []byte, p resp.Protocol, in []int64) []byte { return resp.AppendBool(dst, p, in[0] == 1) })
		},
	}),
	bloomCommand(Command{
		Name:       "BF.MEXISTS",
		Summary:    "Looks for items in a Bloom filter.",
		Complexity: "O(M*K*N) with M items, K bits an item and N filters",
		Arity:      -3,
		Flags:      []string{"readonly", "fast"},
		Args:       []Arg{bfKey, {Name: "item", Type: "string", Use: Multiple, Summary: bfItem.Summary}},
		Reply:      "Array of an integer, in RESP3 a boolean, for each item, as the reply to BF.EXISTS.",
		Errors:     []string{docTooMuch},
		Examples:   []Example{{"BF.MEXISTS seen ann zoe", "1) (integer) 1\n2) (integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLook(env, args, func(dst []byte, p resp.Protocol, in []int64) []byte {
				dst = resp.AppendArray(dst, len(in))
				for _, i := range in {
					dst = resp.AppendBool(dst, p, i == 1)
				}
				return dst
			})
		},
	}),
	bloomCommand(Command{
		Name:       "BF.INFO",
		Summary:    "Describes a Bloom filter.",
		Complexity: "O(N) with N filters",
		Arity:      -2,
		Flags:      []string{"readonly", "fast"},
		Args: []Arg{bfKey, {Name: "field", Type: "oneof", Use: Optional, Summary: "return this field alone", Args: []Arg{
			{Name: "capacity", Type: "pure-token", Token: "CAPACITY", Summary: "the capacity of all filters together"},
			{Name: "size", Type: "pure-token", Token: "SIZE", Summary: "the bytes that the filters take in the module"},
			{Name: "filters", Type: "pure-token", Token: "FILTERS", Summary: "the number of filters"},
			{Name: "items", Type: "pure-token", Token: "ITEMS", Summary: "the number of items that were new"},
			{Name: "expansion", Type: "pure-token", Token: "EXPANSION", Summary: "the expansion; null for NONSCALING"},
		}}},
		Reply:    "Map: `Capacity`, `Size`, `Number of filters`, `Number of items inserted`, `Expansion rate`. With a field, in RESP2 an array of its value, in RESP3 a map of it.",
		Errors:   []string{docArity("bf.info"), "`" + bfNotFound + "`", "`" + bfBadField + "`", docWrongType},
		Examples: []Example{{"BF.INFO seen", "1) \"Capacity\"\n2) (integer) 1000\n…"}},
		Plan:     planFilterInfo,
	}),
	bloomCommand(Command{
		Name:       "BF.CARD",
		Summary:    "Counts the items of a Bloom filter that were new.",
		Complexity: "O(1)",
		Arity:      2,
		Flags:      []string{"readonly", "fast"},
		Args:       []Arg{bfKey},
		Reply:      "Integer; 0 when there is no filter.",
		Errors:     []string{docWrongType},
		Examples:   []Example{{"BF.CARD seen", "(integer) 3"}},
		Plan: func(_ *Env, args [][]byte) Plan {
			p := planHeader(args, func(dst []byte, _ resp.Protocol, c wire.ChainInfo) []byte { return resp.AppendInt(dst, c.Items) })
			translate := p.Translate
			p.Translate = func(dst []byte, protocol resp.Protocol, r redoubt.Reply) []byte {
				if status, _, err := wire.ReadHeader(r); err == nil && status == wire.ChainMissing {
					return resp.AppendInt(dst, 0)
				}
				return translate(dst, protocol, r)
			}
			return p
		},
	}),
	bloomCommand(Command{
		Name:       "BF.SCANDUMP",
		Summary:    "Reads a Bloom filter part by part, for BF.LOADCHUNK.",
		Complexity: "O(N) with N bytes, at most 2 MiB",
		Arity:      3,
		Flags:      []string{"readonly", "fast"},
		Args:       []Arg{bfKey, {Name: "iterator", Type: "integer", Summary: "0 at first, then the iterator of the reply before"}},
		Reply:      "Array: the iterator of the next part, 0 after the last; the part, which is empty after the last.",
		Errors:     []string{"`" + bfNotFound + "`", "`Second argument must be numeric`", docWrongType},
		Examples:   []Example{{"BF.SCANDUMP seen 0", "1) (integer) 1\n2) \"\\x03\\x00…\""}},
		Plan:       planDump,
	}),
	bloomCommand(Command{
		Name:       "BF.LOADCHUNK",
		Summary:    "Writes a part of a dump by BF.SCANDUMP.",
		Complexity: "O(N) with N bytes, in steps of 2 MiB",
		Arity:      4,
		Flags:      []string{"write", "denyoom"},
		Args: []Arg{
			bfKey,
			{Name: "iterator", Type: "integer", Summary: "the iterator of the part"},
			{Name: "data", Type: "string", Summary: "the part"},
		},
		Reply: "`OK`",
		Errors: []string{
			"`ERR Second argument must be numeric`", "`" + bfBadData + "`", "`" + bfNotFound + "`: no header was loaded before",
			"`" + bfUnknownPart + "`", "`" + bfTooLong + "`", docWrongType, docTooLarge, "`" + bfOldDump + "`: hashes of 32 bits, sizes that are powers of two", "`" + bfLongPart + "`",
		},
		Examples: []Example{{"BF.LOADCHUNK copy 1 \"\\x03\\x00…\"", "OK"}},
		Plan:     planLoad,
	}),
}
