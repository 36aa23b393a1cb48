package command

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

func stockScripts() []*redoubt.Script { return wire.Scripts() }

const (
	maxStockTTL = int64(stock.MaxTTL / time.Millisecond)

	stockTryAgain = "TRYAGAIN redoubt: more than 512 reservations have run out and come back step by step; repeat the command"
)

var (
	stockName = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the item: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	stockID   = Arg{Name: "id", Type: "string", Summary: "the reservation's, from STOCK.RESERVE"}

	docStockID  = fmt.Sprintf("`ERR redoubt: ID has … bytes; want 1 to %d`", stock.MaxID)
	docBelow    = "`ERR redoubt: only … are available, with … reserved and … sold`: nothing is changed"
	docTryAgain = "`" + stockTryAgain + "`"
	docFull     = fmt.Sprintf("`ERR redoubt: there would be more than %d`", int64(stock.MaxUnits))
)

// stockErrors appends the errors that all commands of stock share.
func stockErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: another program wrote the item's key")
}

// stockCommand fills in the fields that all commands of stock share.
func stockCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "stock"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	return &c
}

var stockCommands = []*Command{
	stockCommand(Command{
		Name:       "STOCK.SET",
		Summary:    "Sets the total of an item: available, reserved and sold units.",
		Complexity: "O(log(N)) with N reservations, and for at most 512 that expired",
		Arity:      3,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			stockName,
			{Name: "n", Type: "integer", Summary: fmt.Sprintf("available, reserved and sold units: 0 to %d. Repeating the command does not put sold units back on sale", int64(stock.MaxUnits))},
		},
		Reply:    "Integer: how many units are available.",
		Errors:   stockErrors(docInteger, fmt.Sprintf("`ERR redoubt: n is …; want 0 to %d`", int64(stock.MaxUnits)), docBelow, docTryAgain+": only when the result depends on them"),
		Examples: []Example{{"STOCK.SET sku:42 100", "(integer) 100"}},
		Notes: []string{
			"Delete an item by its keys: `UNLINK rd:{sku:42}:stock rd:{sku:42}:due rd:{sku:42}:over`.",
		},
		Plan: func(env *Env, args [][]byte) Plan {
			return planCount(env, args, "n", 0, wire.SetCmd)
		},
	}),
	stockCommand(Command{
		Name:       "STOCK.ADD",
		Summary:    "Adds units to an item, or takes available units away.",
		Complexity: "O(log(N)) with N reservations, and for at most 512 that expired",
		Arity:      3,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			stockName,
			{Name: "delta", Type: "integer", Summary: fmt.Sprintf("units to add; a negative number takes units away. At most %d", int64(stock.MaxUnits))},
		},
		Reply: "Integer: how many units are available.",
		Errors: stockErrors(docInteger, fmt.Sprintf("`ERR redoubt: delta is …; want %d to %d`", int64(-stock.MaxUnits), int64(stock.MaxUnits)),
			docFull, docBelow, docTryAgain+": only when the result depends on them"),
		Examples: []Example{{"STOCK.ADD sku:42 20", "(integer) 120"}},
		Notes:    []string{"Repeating the command after a lost reply may add the units twice: compare the total of STOCK.INFO."},
		Plan: func(env *Env, args [][]byte) Plan {
			return planCount(env, args, "delta", -stock.MaxUnits, wire.AddCmd)
		},
	}),
	stockCommand(Command{
		Name:       "STOCK.RESERVE",
		Summary:    "Reserves units of an item for a time, if enough are available.",
		Complexity: "O(log(N)) with N reservations, and for each that expired, at most n or 2, whichever is more, and at most 512",
		Arity:      -4,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			stockName,
			{Name: "n", Type: "integer", Summary: fmt.Sprintf("units to reserve: 1 to %d", int64(stock.MaxUnits))},
			{Name: "ttl", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the units are held: 1 to %d ms", maxStockTTL)},
			{Name: "id", Type: "string", Token: "ID", Use: Optional, Summary: fmt.Sprintf("names this reservation, for example the number of the order: 1 to %d bytes. Repeating the command with the same ID gives the same reply and takes no more units. The server makes one when absent", stock.MaxID)},
		},
		Reply: "Array of one: the id, for COMMIT and CANCEL. Null when too few units are available.",
		Errors: stockErrors(
			docSyntax,
			docInteger,
			fmt.Sprintf("`ERR redoubt: n is …; want 1 to %d`", int64(stock.MaxUnits)),
			fmt.Sprintf("`ERR redoubt: ttl_ms is …; want 1 to %d`", maxStockTTL),
			docStockID,
			"`ERR redoubt: this ID is over: …`: it was committed, was cancelled or ran out within the last hour",
			"`ERR redoubt: this ID has reserved …, not …`",
			docTryAgain+": only for more than 512 units, while too few are available",
		),
		Examples: []Example{
			{"STOCK.RESERVE sku:42 1 900000 ID order-7", "1) \"order-7\""},
			{"STOCK.RESERVE sku:42 1000 900000", "(nil)"},
		},
		Notes: []string{
			"Units of an expired reservation are available at once. Nothing runs in the background: the next command that needs the units puts them back.",
			"If the client has disconnected before the reply and the server made the ID, the server gives the units back. If the reply is lost later, they are held until the ttl. A client that made the ID can repeat the command, or cancel.",
		},
		Plan: planReserve,
	}),
	stockCommand(Command{
		Name:       "STOCK.COMMIT",
		Summary:    "Sells the units of a reservation.",
		Complexity: "O(log(N)) with N reservations",
		Arity:      3,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args:       []Arg{stockName, stockID},
		Reply:      "Integer: 1 when the units are sold. Otherwise none is sold: 0 when the reservation has expired and its units are back on sale; -1 when it was cancelled; -2 when no reservation has this ID, or it was over more than an hour ago. Repeating the command within an hour gives the same reply.",
		Errors:     stockErrors(docStockID),
		Examples:   []Example{{"STOCK.COMMIT sku:42 order-7", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planSettle(env, args, wire.CommitCmd, wire.Committed)
		},
	}),
	stockCommand(Command{
		Name:       "STOCK.CANCEL",
		Summary:    "Puts the units of a reservation back on sale.",
		Complexity: "O(log(N)) with N reservations",
		Arity:      3,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args:       []Arg{stockName, stockID},
		Reply:      "Integer: 1 when the units are back on sale; 0 when the reservation had expired before; -1 when it was committed, and the units stay sold; -2 when no reservation has this ID, or it was over more than an hour ago. A STOCK.RESERVE with the same ID that arrives later takes nothing. Repeating the command within an hour gives the same reply.",
		Errors:     stockErrors(docStockID),
		Before:     []string{"STOCK.RESERVE sku:42 1 900000 ID order-8"},
		Examples:   []Example{{"STOCK.CANCEL sku:42 order-8", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planSettle(env, args, wire.CancelCmd, wire.Cancelled)
		},
	}),
	stockCommand(Command{
		Name:       "STOCK.INFO",
		Summary:    "Reads the state of an item. The units of expired reservations count as available.",
		Complexity: "O(log(N)) with N reservations, and O(1) for each of at most 4,096 that expired",
		Arity:      2,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{stockName},
		Reply:      "Map of integers: units `total`, `available`, `reserved` and `sold`; `reservations` that hold units; `expired` reservations whose units still count as reserved, 0 unless more than 4,096 have expired since a command last changed the item; `next_ms` until the next reservation expires, -1 without any.",
		Errors:     stockErrors(),
		Before: []string{
			"STOCK.RESERVE sku:42 1 900000 ID order-9",
			"STOCK.COMMIT sku:42 order-9",
			"STOCK.RESERVE sku:42 1 900000 ID order-10",
		},
		Examples: []Example{{"STOCK.INFO sku:42", "1) \"total\"\n2) (integer) 120\n3) \"available\"\n4) (integer) 117\n5) \"reserved\"\n6) (integer) 1\n7) \"sold\"\n8) (integer) 2\n" +
			"9) \"reservations\"\n10) (integer) 1\n11) \"expired\"\n12) (integer) 0\n13) \"next_ms\"\n14) (integer) 893210"}},
		Plan: func(env *Env, args [][]byte) Plan {
			keys, err := wire.KeysOf(env.Client, string(args[1]))
			if err != nil {
				return refusal(err)
			}
			cmd := wire.InfoCmd(keys)
			return Plan{Cmd: &cmd, Translate: appendStock}
		},
	}),
	{
		Name:       "STOCK.LS",
		Summary:    "Lists the items, one page in each call.",
		Since:      "0.1.0",
		Group:      "stock",
		Complexity: lsComplexity,
		Arity:      -1,
		Flags:      []string{"readonly", "noscript"},
		Args:       lsArgs,
		Reply:      lsReply("STOCK.INFO"),
		Errors:     lsErrors(),
		Examples:   []Example{{"STOCK.LS MATCH sku:*", "1) \"0\"\n2) 1)  1) \"name\"\n       2) \"sku:42\"\n       3) \"total\"\n       4) (integer) 120\n       …"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLS(env, args, wire.Page, func(dst []byte, p resp.Protocol, l listing.Listed[wire.Info]) []byte {
				dst = resp.AppendMap(dst, p, 8)
				dst = resp.AppendBulk(dst, "name")
				dst = resp.AppendBulk(dst, l.Name)
				return appendItem(dst, l.Info)
			})
		},
	},
}

// units reads a number of units between least and MaxUnits.
func units(name string, b []byte, least int64) (int64, string) {
	return milliseconds(name, b, least, stock.MaxUnits)
}

func planCount(env *Env, args [][]byte, name string, least int64, count func(wire.Keys, int64) redoubt.Cmd) Plan {
	n, fault := units(name, args[2], least)
	if fault != "" {
		return Plan{Err: fault}
	}
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	cmd := count(keys, n)
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		c, err := wire.ReadCount(r)
		switch {
		case err != nil:
			return appendError(dst, err)
		case c.Short && c.Expired > 0:
			return resp.AppendError(dst, stockTryAgain)
		case c.Short:
			return resp.AppendError(dst, fmt.Sprintf("ERR redoubt: only %d are available, with %d reserved and %d sold", c.Available, c.Reserved, c.Sold))
		case c.Full:
			return resp.AppendError(dst, fmt.Sprintf("ERR redoubt: there would be more than %d", int64(stock.MaxUnits)))
		}
		return resp.AppendInt(dst, c.Available)
	}}
}

func planReserve(env *Env, args [][]byte) Plan {
	n, fault := units("n", args[2], 1)
	if fault != "" {
		return Plan{Err: fault}
	}
	ttl, fault := milliseconds("ttl_ms", args[3], 1, maxStockTTL)
	if fault != "" {
		return Plan{Err: fault}
	}
	id, secret := wire.NewID(), true // no client knows it before the reply
	switch {
	case len(args) == 6 && bytes.EqualFold(args[4], []byte("ID")):
		id, secret = string(args[5]), false
		if wire.CheckID(id) != nil {
			return idFault(id)
		}
	case len(args) != 4:
		return Plan{Err: syntaxAt(args[4])}
	}
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	cmd := wire.ReserveCmd(keys, id, n, time.Duration(ttl)*time.Millisecond)
	p := Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		a, err := wire.ReadAttempt(r)
		if err != nil {
			return appendError(dst, err)
		}
		return appendReserved(dst, p, id, n, a)
	}}
	if secret {
		p.Undo = func(ctx context.Context, r redoubt.Reply) {
			if a, err := wire.ReadAttempt(r); err == nil && a.Status == wire.Reserved {
				ctx, cancel := context.WithTimeout(redoubt.Patient(ctx), undoTimeout)
				defer cancel()
				_ = env.Client.Do(ctx, wire.CancelCmd(keys, id)) // if that fails they come back with the ttl
			}
		}
	}
	return p
}

func appendReserved(dst []byte, p resp.Protocol, id string, n int64, a wire.Attempt) []byte {
	over := func(how string) []byte {
		return resp.AppendError(dst, "ERR redoubt: this ID is over: it "+how+"; use a new one")
	}
	switch a.Status {
	case wire.Reserved:
		if a.N != n {
			return resp.AppendError(dst, fmt.Sprintf("ERR redoubt: this ID has reserved %d, not %d", a.N, n))
		}
		return resp.AppendBulk(resp.AppendArray(dst, 1), id)
	case wire.Committed:
		return over("was committed")
	case wire.Cancelled:
		return over("was cancelled")
	case wire.Expired:
		return over("ran out")
	case wire.Again:
		return resp.AppendError(dst, stockTryAgain)
	default:
		return resp.AppendNullArray(dst, p)
	}
}

func planSettle(env *Env, args [][]byte, settle func(wire.Keys, string) redoubt.Cmd, want wire.Status) Plan {
	id := string(args[2])
	if wire.CheckID(id) != nil {
		return idFault(id)
	}
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	cmd := settle(keys, id)
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		got, err := wire.ReadSettled(r)
		if err != nil {
			return appendError(dst, err)
		}
		n := int64(0)
		switch got {
		case want:
			n = 1
		case wire.Expired:
		case wire.None:
			n = -2
		default: // settled the other way
			n = -1
		}
		return resp.AppendInt(dst, n)
	}}
}

func appendStock(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
	c, err := wire.ReadCount(r)
	if err != nil {
		return appendError(dst, err)
	}
	return appendItem(resp.AppendMap(dst, p, 7), c.Info)
}

// appendItem appends the seven pairs of STOCK.INFO.
func appendItem(dst []byte, c wire.Info) []byte {
	next := int64(-1)
	if c.Reservations > 0 {
		next = c.Next.Milliseconds()
	}
	fields := []struct {
		name string
		n    int64
	}{
		{"total", c.Total},
		{"available", c.Available},
		{"reserved", c.Reserved},
		{"sold", c.Sold},
		{"reservations", c.Reservations},
		{"expired", c.Expired},
		{"next_ms", next},
	}
	for _, f := range fields {
		dst = resp.AppendInt(resp.AppendBulk(dst, f.name), f.n)
	}
	return dst
}

func idFault(id string) Plan {
	return Plan{Err: fmt.Sprintf("ERR redoubt: ID has %d bytes; want 1 to %d", len(id), stock.MaxID)}
}
