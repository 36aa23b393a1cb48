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
		{Name: "expansion", Type: "integer", Token: "EXPANSION", Use: Optional, Summary: "how many times as large each filter is as the one before that is full: 0 to 32768. Defaults to 2; 0 is NONSCALING"},
		{Name: "nonscaling", Type: "pure-token", Token: "NONSCALING", Use: Optional, Summary: "refuse items when the filter is full"},
	}
	bfErrorRate = "how often the answer for an item that was never added may be 1, together for all filters that follow: above 0, below 1, where more than 0.25 counts as that"
	bfOnModule  = "Where the server behind has the RedisBloom module, the command is passed to it."
	bfSteps     = "Many items are added in steps, in their order, so that the server behind serves others in between: they may see some of the items before all are in, and an error leaves those that are. Inside MULTI there is one step, which takes some hundred items, and one item where there are 1,000 filters."
	bfNew       = "1, in RESP3 true, when the item is new, 0 or false when it may have been added before"
)

// bloomCommand fills in what the commands of RedisBloom share.
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
		Complexity: "O(N) with N bytes, which are filled with zeros",
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
			"A filter is one string under the client's key, with the bits, positions and sizes of the module; what BF.SCANDUMP gives loads into it, and the reverse. TYPE says `string`, where the module has `MBbloom--`, so DUMP and RESTORE don't go between the two.",
			"A string holds 512 MB, which is 448,000,000 items at an error rate of 0.01 in a filter that doesn't scale. A server does nothing else while it makes such a string, or moves one that grows: some 0.6 ms a MiB. For more, and in less memory, Go programs have package `bloom`.",
		},
		Plan: planReserveFilter,
	}),
	bloomCommand(Command{
		Name:       "BF.ADD",
		Summary:    "Adds an item to a Bloom filter, which is made unless it is there.",
		Complexity: "O(K*N) with K bits an item and N filters",
		Arity:      3,
		Flags:      []string{"write", "denyoom"},
		Args:       []Arg{bfKey, bfItem},
		Reply:      "Integer, in RESP3 a boolean: " + bfNew + ".",
		Errors:     []string{"`" + bfFull + "`", "`" + bfNoLink + "`: it would be too small or its error rate 0", docWrongType, docTooLarge},
		Examples:   []Example{{"BF.ADD seen ann", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return bfInsert{bfDefault, true, wire.HashItems(args[2:])}.plan(env, args[1], appendItemAdded)
		},
	}),
	bloomCommand(Command{
		Name:       "BF.MADD",
		Summary:    "Adds items to a Bloom filter, which is made unless it is there.",
		Complexity: "O(M*K*N) with M items, K bits an item and N filters",
		Arity:      -3,
		Flags:      []string{"write", "denyoom"},
		Args:       []Arg{bfKey, {Name: "item", Type: "string", Use: Multiple, Summary: bfItem.Summary}},
		Reply:      "Array, of each item: " + bfNew + ". It ends with an error at the first item for which there is no room.",
		Errors:     []string{"`" + bfFull + "`", "`" + bfNoLink + "`", docWrongType, docTooLarge, docTooMuch},
		Notes:      []string{bfSteps},
		Examples:   []Example{{"BF.MADD seen bob bob", "1) (integer) 1\n2) (integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return bfInsert{bfDefault, true, wire.HashItems(args[2:])}.plan(env, args[1], appendItems)
		},
	}),
	bloomCommand(Command{
		Name:       "BF.INSERT",
		Summary:    "Adds items to a Bloom filter, and says what it is to be if it is not there.",
		Complexity: "O(M*K*N) with M items, K bits an item and N filters",
		Arity:      -4,
		Flags:      []string{"write", "denyoom"},
		Args: append(append([]Arg{
			bfKey,
			{Name: "capacity", Type: "integer", Token: "CAPACITY", Use: Optional, Summary: "how many items the first filter is for: 1 to 1073741824. Defaults to 100"},
			{Name: "error", Type: "double", Token: "ERROR", Use: Optional, Summary: bfErrorRate + ". Defaults to 0.01"},
		}, bfSpecArgs...),
			Arg{Name: "nocreate", Type: "pure-token", Token: "NOCREATE", Use: Optional, Summary: "add only to a filter that is there"},
			Arg{Name: "items", Type: "pure-token", Token: "ITEMS", Summary: "what follows are items"},
			Arg{Name: "item", Type: "string", Use: Multiple, Summary: bfItem.Summary},
		),
		Reply: "Array, as of BF.MADD.",
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
		Reply:      "Integer, in RESP3 a boolean: 1 or true when the item may have been added, 0 or false when it was not, also when there is no filter or the key holds something else.",
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
		Reply:      "Array, of each item what BF.EXISTS answers.",
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
		Summary:    "Says what a Bloom filter is.",
		Complexity: "O(N) with N filters",
		Arity:      -2,
		Flags:      []string{"readonly", "fast"},
		Args: []Arg{bfKey, {Name: "field", Type: "oneof", Use: Optional, Summary: "answer with one of them alone", Args: []Arg{
			{Name: "capacity", Type: "pure-token", Token: "CAPACITY", Summary: "items that all filters together are for"},
			{Name: "size", Type: "pure-token", Token: "SIZE", Summary: "bytes that they take in the module"},
			{Name: "filters", Type: "pure-token", Token: "FILTERS", Summary: "how many there are"},
			{Name: "items", Type: "pure-token", Token: "ITEMS", Summary: "items that were new"},
			{Name: "expansion", Type: "pure-token", Token: "EXPANSION", Summary: "null without one"},
		}}},
		Reply:    "Map: `Capacity`, `Size`, `Number of filters`, `Number of items inserted`, `Expansion rate`. With a field, in RESP2 an array of its value, in RESP3 a map of it.",
		Errors:   []string{docArity("bf.info"), "`" + bfNotFound + "`", "`" + bfBadField + "`", docWrongType},
		Examples: []Example{{"BF.INFO seen ITEMS", "1) (integer) 3"}},
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
		Args:       []Arg{bfKey, {Name: "iterator", Type: "integer", Summary: "0 at first, then what came with the part before"}},
		Reply:      "Array: the iterator of the next part, 0 after the last; the part, empty then.",
		Errors:     []string{"`" + bfNotFound + "`", "`Second argument must be numeric`", docWrongType},
		Examples:   []Example{{"BF.SCANDUMP seen 0", "1) (integer) 1\n2) \"\\x03\\x00…\""}},
		Plan:       planDump,
	}),
	bloomCommand(Command{
		Name:       "BF.LOADCHUNK",
		Summary:    "Writes a part that BF.SCANDUMP gave.",
		Complexity: "O(N) with N bytes, in steps of 2 MiB",
		Arity:      4,
		Flags:      []string{"write", "denyoom"},
		Args: []Arg{
			bfKey,
			{Name: "iterator", Type: "integer", Summary: "what came with the part"},
			{Name: "data", Type: "string", Summary: "the part"},
		},
		Reply: "`OK`",
		Errors: []string{
			"`ERR Second argument must be numeric`", "`" + bfBadData + "`", "`" + bfNotFound + "`: no header was loaded before",
			"`" + bfNowhere + "`", "`" + bfTooLong + "`", docWrongType, docTooLarge, "`" + bfOldDump + "`: hashes of 32 bits, sizes that are powers of two", "`" + bfLongPart + "`",
		},
		Examples: []Example{{"BF.LOADCHUNK copy 1 \"\\x03\\x00…\"", "OK"}},
		Plan:     planLoad,
	}),
}
