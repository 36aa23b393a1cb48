package dashboard

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// errShape is the error of a reply that no server gives.
var errShape = errors.New("dashboard: the server's reply has an unknown shape")

// An info has the fields of INFO.
type info map[string]string

// readInfo asks every primary for INFO and adds up the numbers that add up.
func readInfo(ctx context.Context, client *redoubt.Client) (info, error) {
	conns, err := client.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	var all info
	var errs []error
	for _, c := range conns {
		text, err := c.Do(ctx, redoubt.Cmd{Name: "INFO", Flags: redoubt.ReadOnly}).Text()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		one := parseInfo(text)
		if all == nil {
			all = one
			continue
		}
		for _, field := range sums {
			if _, ok := one[field]; ok {
				all[field] = strconv.FormatInt(all.int(field)+one.int(field), 10)
			}
		}
	}
	if all != nil && len(errs) > 0 {
		// Without one server, the counters of the others are a smaller sum. The chart would take the
		// return of that server for a burst of commands.
		for _, field := range growing {
			delete(all, field)
		}
	}
	if all != nil {
		return all, nil // of the servers that are up
	}
	return nil, errors.Join(errs...)
}

// growing are the fields that count since the start of a server, and sums all that add up over servers.
var (
	growing = []string{"total_commands_processed", "keyspace_hits", "keyspace_misses", "expired_keys", "evicted_keys"}
	sums    = append([]string{"connected_clients", "used_memory", "used_memory_peak", "aof_current_size", "keys"}, growing...)
)

func parseInfo(text string) info {
	i := info{}
	keys := int64(0)
	for line := range strings.Lines(text) {
		field, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		i[field] = value
		if _, isDB := strings.CutPrefix(field, "db"); isDB && strings.HasPrefix(value, "keys=") {
			n, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			k, _ := strconv.ParseInt(n, 10, 64)
			keys += k
		}
	}
	i["keys"] = strconv.FormatInt(keys, 10)
	return i
}

// int returns a field, or 0.
func (i info) int(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

// orNil returns a field, or nil where the server does not have it.
func (i info) orNil(field string) any {
	n, err := strconv.ParseInt(i[field], 10, 64)
	if err != nil {
		return nil
	}
	return n
}
