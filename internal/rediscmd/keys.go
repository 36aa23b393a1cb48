package rediscmd

import "github.com/redoubt-go/redoubt/internal/resp"

// A finder appends the positions of keys that have no fixed place to at. It reports false when
// args don't say where the keys are.
type finder func(at []int, args [][]byte) ([]int, bool)

// Keyed reports whether the command, or a subcommand of it, may have keys.
func (c *Command) Keyed() bool { return c.keyed || c.sibling != nil }

// Movable reports whether the command may have keys that stand at no fixed place.
func (c *Command) Movable() bool { return c.find != nil }

// OneKey reports whether the command has the key args[1] and no other.
func (c *Command) OneKey() bool { return c.keyed && c.First == 1 && c.Last == 1 && c.find == nil }

// Keys appends the positions of the keys in args to at. Their number is right, and they begin
// with the name of c. The first key comes first. If args don't say where all keys are, Keys
// reports false and appends the keys that it has found.
//
// A subcommand that the table lacks, as one of a later release, counts as having its keys at the same
// positions as the other subcommands.
func (c *Command) Keys(at []int, args [][]byte) (_ []int, ok bool) {
	if c.Subs != nil {
		if c = c.keysLike(args); c == nil {
			return at, true
		}
	}
	if c.keyed && c.First > 0 {
		last := c.Last
		if last < 0 {
			last += len(args)
		}
		for i := c.First; i <= last && i < len(args); i += c.Step {
			at = append(at, i)
		}
	}
	if c.find != nil {
		return c.find(at, args)
	}
	return at, true
}

// keysLike returns the subcommand that says where the keys are in args, or nil: there are none.
func (c *Command) keysLike(args [][]byte) *Command {
	sub := c.Of(args)
	switch sub {
	case c:
		return nil
	case nil:
		return c.sibling
	}
	return sub
}

// counted is for keys behind their number, which is argument n.
func counted(n int) finder {
	return func(at []int, args [][]byte) ([]int, bool) {
		if n >= len(args) {
			return at, false
		}
		count, ok := resp.ParseInt(args[n])
		if !ok || count < 0 || count > int64(len(args)-n-1) {
			return at, false
		}
		for i := range int(count) {
			at = append(at, n+1+i)
		}
		return at, true
	}
}

// stored is for the destinations of GEORADIUS, which the options from argument n on name. They
// are all found: Redis writes the last one, but asks for rights on others as well.
func stored(n int) finder {
	return func(at []int, args [][]byte) ([]int, bool) {
		for i := n; i+1 < len(args); i++ {
			if is(args[i], "STORE") || is(args[i], "STOREDIST") {
				at = append(at, i+1)
			}
		}
		return at, true
	}
}

// sorted is for the destination of SORT, which is the last that is given.
func sorted(at []int, args [][]byte) ([]int, bool) {
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case is(args[i], "LIMIT"):
			i += 2
		case is(args[i], "GET"), is(args[i], "BY"):
			i++
		case is(args[i], "STORE") && i+1 < len(args):
			store = i + 1
		}
	}
	if store > 0 {
		at = append(at, store)
	}
	return at, true
}

// streams is for keys behind STREAMS, followed by as many IDs.
func streams(at []int, args [][]byte) ([]int, bool) {
	for i := 1; i < len(args); i++ {
		switch {
		case is(args[i], "GROUP"):
			i += 2
		case is(args[i], "COUNT"), is(args[i], "BLOCK"):
			i++
		case is(args[i], "STREAMS"):
			rest := len(args) - i - 1
			for j := range rest / 2 {
				at = append(at, i+1+j)
			}
			return at, rest > 0 && rest%2 == 0
		}
	}
	return at, false
}

// migrated is for the keys of MIGRATE behind KEYS. at ends with the position of the one key that
// stands in front of the options; it is empty if there is KEYS.
func migrated(at []int, args [][]byte) ([]int, bool) {
	for i := 6; i+1 < len(args); i++ {
		switch {
		case is(args[i], "AUTH"):
			i++
		case is(args[i], "AUTH2"):
			i += 2
		case is(args[i], "KEYS"):
			at = at[:len(at)-1]
			if len(args[3]) > 0 {
				return at, false
			}
			for j := i + 1; j < len(args); j++ {
				at = append(at, j)
			}
			return at, true
		}
	}
	return at, true
}
