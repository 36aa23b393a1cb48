package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/stock"
)

// An itemState is the JSON form of an item.
type itemState struct {
	Name         string `json:"name"`
	Total        int64  `json:"total"`
	Available    int64  `json:"available"`
	Reserved     int64  `json:"reserved"`
	Sold         int64  `json:"sold"`
	Reservations int64  `json:"reservations"`
	Next         *int64 `json:"next_ms"` // null: no reservations
}

func itemStateOf(i stock.Info) itemState {
	s := itemState{Name: i.Name, Total: i.Total, Available: i.Available, Reserved: i.Reserved, Sold: i.Sold, Reservations: i.Reservations}
	if i.Reservations > 0 {
		s.Next = new(i.Next.Milliseconds())
	}
	return s
}

func newStock() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stock",
		Short: "List, count, set and remove the units of items for sale",
		Long: `List, count, set and remove the units of items for sale: total = available + reserved + sold.
Units of expired reservations count as available.

Exit codes: 0 done; 1 refused, because too few units are available to remove, or the
total would be too large; 64 wrong usage; 65 the key has another type; 69 no
server.`,
		Example: "  redoubt stock set sku:42 100\n  redoubt stock info sku:42",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(newStockLS(), newStockCommand("info NAME", "Count the units of an item", 0, nil),
		newStockCommand("set NAME N", "Set the total units of an item, including sold ones", 0, (*stock.Inventory).Set),
		newStockCommand("add NAME N", "Add units to an item; add NAME -- -N removes available units", -stock.MaxUnits, (*stock.Inventory).Add),
		newStockRM())
	return cmd
}

func newStockLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short:   "List the items",
		Long:    "List the items. It scans all keys of the server, or of all primaries of a cluster, in\nsmall steps that don't block other clients.",
		Example: "  redoubt stock ls --match 'sku:*'",
		Args:    noArguments,
	}, "items", listItems, printItems)
}

func listItems(ctx context.Context, client *redoubt.Client, match string) ([]itemState, error) {
	items, err := stock.New(client, stock.Options{})
	if err != nil {
		return nil, err
	}
	found := map[string]itemState{} // a scan may return a name twice
	for item, err := range items.List(ctx, match) {
		if err != nil {
			return nil, err
		}
		found[item.Name] = itemStateOf(item)
	}
	states := slices.AppendSeq([]itemState{}, maps.Values(found)) // never nil: JSON null is no array
	slices.SortFunc(states, func(a, b itemState) int { return cmp.Compare(a.Name, b.Name) })
	return states, nil
}

func printItems(w io.Writer, states []itemState) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "NAME\tTOTAL\tAVAILABLE\tRESERVED\tSOLD\tRESERVATIONS\tNEXT RUNS OUT IN")
	for _, s := range states {
		next := "-"
		if s.Next != nil {
			next = rounded(*s.Next)
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", printable(s.Name), s.Total, s.Available, s.Reserved, s.Sold, s.Reservations, next)
	}
	return table.Flush()
}

func newStockRM() *cobra.Command {
	var f serverFlags
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "rm NAME --force",
		Short: "Remove an item with its reservations",
		Long: `Remove the item NAME: its counts, and all its reservations, also of purchases that
are under way. There is no prompt; pass --force.

Exit codes: 0 removed; 1 there is no such item; 64 wrong usage; 65 the key has another
type; 69 no server.`,
		Example: "  redoubt stock rm sku:42 --force",
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return usagef("this removes the item and its reservations for good; if you want that, pass --force")
			}
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				items, err := stock.New(client, stock.Options{})
				if err != nil {
					return err
				}
				deleted, err := items.Delete(ctx, args[0])
				switch {
				case err != nil:
					return stockFault(args[0], err)
				case asJSON:
					if err := printJSON(cmd.OutOrStdout(), map[string]any{"name": args[0], "removed": deleted}); err != nil || deleted {
						return err
					}
					return fail(exitFault, nil)
				case !deleted:
					return failf(exitFault, "there is no item %q: `redoubt stock ls` lists the items", args[0])
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed item %q\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "required, because the item is removed for good")
	onThisLine(cmd.Flags(), "force")
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object")
	f.flags(cmd.Flags(), "items")
	return cmd
}

// newStockCommand returns a command on one item. If change is not nil, the command also takes a number of
// at least least.
func newStockCommand(use, short string, least int64, change func(*stock.Inventory, context.Context, string, int64) (stock.Info, error)) *cobra.Command {
	var f serverFlags
	var asJSON bool
	want := strings.Fields(use)[1:]
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  redoubt stock " + strings.NewReplacer("NAME", "sku:42", "N", "100").Replace(use),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != len(want) {
				return fmt.Errorf("want %s, not %d arguments", strings.Join(want, " and "), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var n int64
			if change != nil {
				var err error
				if n, err = strconv.ParseInt(args[1], 10, 64); err != nil || n < least || n > stock.MaxUnits {
					return usagef("N is %q; want a whole number from %d to %d", args[1], least, int64(stock.MaxUnits))
				}
			}
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				items, err := stock.New(client, stock.Options{})
				if err != nil {
					return err
				}
				var info stock.Info
				if change == nil {
					info, err = items.Info(ctx, args[0])
				} else {
					info, err = change(items, ctx, args[0], n)
				}
				if err != nil {
					return stockFault(args[0], err)
				}
				s := itemStateOf(info)
				if asJSON {
					return printJSON(cmd.OutOrStdout(), s)
				}
				return printItems(cmd.OutOrStdout(), []itemState{s})
			})
		},
	}
	if least < 0 {
		cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
			if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
				return misusef("%w (to remove units: %s NAME -- -N)", err, cmd.CommandPath())
			}
			return flagFault(cmd, nil, err)
		})
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(flags, "json")
	f.flags(flags, "items")
	return cmd
}

func stockFault(name string, err error) error {
	if errors.Is(err, stock.ErrBelowZero) || errors.Is(err, stock.ErrTooMany) {
		return failf(exitFault, "item %q: %w", name, err)
	}
	return serverFault("item "+strconv.Quote(name), err)
}
