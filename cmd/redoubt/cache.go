package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// A cacheEntry is the JSON form of one key of a cache.
type cacheEntry struct {
	Cache string `json:"cache"`
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	Fresh int64  `json:"fresh_ms"`
	TTL   int64  `json:"ttl_ms"`
	Took  int64  `json:"took_ms"`
	Lease int64  `json:"lease_ms"`
	Bytes int    `json:"bytes"`
	// Value is the payload if it is UTF-8, and else quoted as in Go.
	Value string `json:"value"`
}

func cacheEntryOf(i cache.Info) cacheEntry {
	value := string(i.Payload)
	if !utf8.ValidString(value) {
		value = strconv.Quote(value)
	}
	return cacheEntry{
		Cache: i.Cache, Key: i.Key, Kind: i.Kind, Fresh: i.Fresh.Milliseconds(), TTL: i.TTL.Milliseconds(),
		Took: i.Took.Milliseconds(), Lease: i.Lease.Milliseconds(), Bytes: i.Bytes, Value: value,
	}
}

// A cacheState is the JSON form of the counts of a cache.
type cacheState struct {
	Cache     string `json:"cache"`
	Values    int64  `json:"values"`
	Stale     int64  `json:"stale"` // of the values
	Negatives int64  `json:"negatives"`
	Loading   int64  `json:"loading"`
	Bytes     int64  `json:"bytes"`
}

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List caches; count, show and invalidate their entries",
		Long: `List caches; count, show and invalidate the entries that caches of package cache keep on the server.

Exit codes: 0 done; 1 no such entry; 64 wrong usage; 65 the key has another type; 69
no server.`,
		Example: "  redoubt cache stats users\n  redoubt cache invalidate users 42",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(newCacheLS(), newCacheStats(), newCacheGet(), newCacheInvalidate())
	return cmd
}

func newCacheStats() *cobra.Command {
	return newCacheCommand(&cobra.Command{
		Use:     "stats NAME",
		Short:   "Count the entries of a cache",
		Example: "  redoubt cache stats users",
		Long:    "Count the entries of a cache. It scans all keys of the server, or of all primaries of a\ncluster, in small steps that don't block other clients.",
	}, 1, func(ctx context.Context, admin *cache.Admin, args []string, out io.Writer, asJSON bool) error {
		if err := wire.CheckName(args[0]); err != nil {
			return serverFault("cache "+strconv.Quote(args[0]), err)
		}
		found, err := countEntries(ctx, admin, wire.EntriesOf(args[0]))
		if err != nil {
			return serverFault("cache "+strconv.Quote(args[0]), err)
		}
		s := cacheState{Cache: args[0]}
		if len(found) > 0 {
			s = found[0]
		}
		if asJSON {
			return printJSON(out, s)
		}
		return printCaches(out, []cacheState{s})
	})
}

// countEntries counts the entries that match, by cache.
func countEntries(ctx context.Context, admin *cache.Admin, match string) ([]cacheState, error) {
	found := map[string]*cacheState{}
	seen := map[[2]string]bool{} // a scan may return a key twice
	for i, err := range admin.List(ctx, match) {
		if err != nil {
			return nil, err
		}
		if seen[[2]string{i.Cache, i.Key}] {
			continue
		}
		seen[[2]string{i.Cache, i.Key}] = true
		s := found[i.Cache]
		if s == nil {
			s = &cacheState{Cache: i.Cache}
			found[i.Cache] = s
		}
		s.Bytes += int64(i.Bytes)
		if i.Lease > 0 {
			s.Loading++
		}
		switch i.Kind {
		case "value":
			s.Values++
			if i.Fresh <= 0 {
				s.Stale++
			}
		case "negative":
			s.Negatives++
		}
	}
	states := []cacheState{} // never nil: JSON null is no array
	for _, name := range slices.Sorted(maps.Keys(found)) {
		states = append(states, *found[name])
	}
	return states, nil
}

func printCaches(w io.Writer, states []cacheState) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "CACHE\tVALUES\tSTALE\tNEGATIVES\tLOADING\tSIZE")
	for _, s := range states {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", printable(s.Cache), s.Values, s.Stale, s.Negatives, s.Loading, byteSize(s.Bytes))
	}
	return table.Flush()
}

func newCacheLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short: "List the caches and count their entries",
		Long: `List the caches that have entries on the server, and count them.

It scans all keys of the server, or of all primaries of a cluster, and reads every
entry, in small steps that don't block other clients.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: "  redoubt cache ls\n  redoubt cache ls --match 'user*' --json | jq '.[] | select(.loading > 0)'",
		Args:    noArguments,
	}, "caches", func(ctx context.Context, client *redoubt.Client, match string) ([]cacheState, error) {
		admin, err := cache.NewAdmin(client, cache.AdminOptions{})
		if err != nil {
			return nil, err
		}
		if match != "" {
			match += ":*" // of all keys of a cache
		}
		return countEntries(ctx, admin, match)
	}, printCaches)
}

func newCacheGet() *cobra.Command {
	return newCacheCommand(&cobra.Command{
		Use:     "get NAME KEY",
		Short:   "Show the entry of a key",
		Example: "  redoubt cache get users 42\n  redoubt cache get users 42 --json | jq -r .value",
	}, 2, func(ctx context.Context, admin *cache.Admin, args []string, out io.Writer, asJSON bool) error {
		i, found, err := admin.Info(ctx, args[0], args[1])
		if err != nil {
			return serverFault("cache "+strconv.Quote(args[0]), err)
		}
		if !found {
			return failf(exitFault, "cache %q has no entry for %q", args[0], args[1])
		}
		e := cacheEntryOf(i)
		if asJSON {
			return printJSON(out, e)
		}
		table := newTable(out)
		_, _ = fmt.Fprintf(table, "kind\t%s\nfresh for\t%s\nlives for\t%s\nload took\t%s\nlease for\t%s\nsize\t%s\nvalue\t%s\n",
			e.Kind, rounded(e.Fresh), rounded(e.TTL), rounded(e.Took), rounded(e.Lease), byteSize(int64(e.Bytes)), printable(e.Value))
		return table.Flush()
	})
}

func newCacheInvalidate() *cobra.Command {
	return newCacheCommand(&cobra.Command{
		Use:     "invalidate NAME KEY",
		Short:   "Invalidate a key in all processes",
		Example: "  redoubt cache invalidate users 42",
	}, 2, func(ctx context.Context, admin *cache.Admin, args []string, out io.Writer, asJSON bool) error {
		existed, err := admin.Invalidate(ctx, args[0], args[1])
		if err != nil {
			return serverFault("cache "+strconv.Quote(args[0]), err)
		}
		if asJSON {
			return printJSON(out, map[string]bool{"there": existed})
		}
		if !existed {
			_, err = fmt.Fprintln(out, "there was no value")
			return err
		}
		_, err = fmt.Fprintln(out, "invalidated")
		return err
	})
}

// newCacheCommand completes cmd, which takes n arguments.
func newCacheCommand(cmd *cobra.Command, n int, run func(ctx context.Context, admin *cache.Admin, args []string, out io.Writer, asJSON bool) error) *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			_, want, _ := strings.Cut(cmd.Use, " ")
			return fmt.Errorf("want %s, not %d arguments", want, len(args))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
			admin, err := cache.NewAdmin(client, cache.AdminOptions{})
			if err != nil {
				return err
			}
			return run(ctx, admin, args, cmd.OutOrStdout(), asJSON)
		})
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(flags, "json")
	f.flags(flags, "caches")
	return cmd
}
