package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/poolhost"
)

// healthTimeout is how long /readyz waits for the back end.
const healthTimeout = time.Second

// A healthCheck is one question of /readyz. ask returns an error if the server is not ready, and a note about a
// fault that leaves it ready. No check writes.
type healthCheck struct {
	name string
	ask  func(ctx context.Context) (note string, err error)
}

// backendChecks returns the checks of one back end. They share one round trip.
func backendChecks(back *backend) []healthCheck {
	if back.group != nil {
		return poolChecks([]poolhost.Probe{back.group.Probe()})
	}
	var a answers
	answer := func(of func() (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			if a.ask(ctx, back); a.silent != nil {
				return "", a.silent
			}
			return of()
		}
	}
	checks := []healthCheck{
		{"backend", answer(func() (string, error) { return "", nil })},
		{"writes", answer(func() (string, error) { return a.writes(back.name) })},
		{"memory", answer(func() (string, error) { return a.memory(back.name), nil })},
	}
	if back.saveErr != nil {
		checks = append(checks, healthCheck{"disk", func(context.Context) (string, error) {
			if err := back.saveErr(); err != nil {
				return "", fmt.Errorf("writes are refused because they can't be saved: %w", err)
			}
			return "", nil
		}})
	}
	return checks
}

// answers are what a back end says of itself.
type answers struct {
	once          sync.Once
	silent        error             // why it doesn't answer
	misconfigured error             // PING's: Redis refuses it while it can't save
	fields        map[string]string // of INFO; nil: it is refused
	wanted        string            // min-replicas-to-write
}

// ask asks the back end, once.
func (a *answers) ask(ctx context.Context, back *backend) {
	a.once.Do(func() {
		replies := back.client.Pipeline(ctx, []redoubt.Cmd{
			{Name: "PING", Flags: redoubt.ReadOnly},
			{Name: "INFO", Args: []string{"replication"}, Flags: redoubt.ReadOnly},
			{Name: "INFO", Args: []string{"memory"}, Flags: redoubt.ReadOnly},
		})
		switch err := replies[0].Err; {
		case err == nil:
		case redoubt.IsCode(err, "MISCONF"):
			a.misconfigured = err
		default:
			a.silent = fmt.Errorf("back end %s does not answer: %w", back.name, err)
			return
		}
		replication, err := replies[1].Text()
		memory, more := replies[2].Text()
		if errors.Join(err, more) != nil {
			return
		}
		a.fields = infoFields(replication + "\n" + memory)
		if _, wants := a.fields["min_slaves_good_slaves"]; wants { // only then does Redis count them
			a.wanted, _ = configured(ctx, back.client, "min-replicas-to-write")
		}
	})
}

// writes returns an error if the back end refuses every write.
func (a *answers) writes(name string) (note string, err error) {
	good, _ := strconv.Atoi(a.fields["min_slaves_good_slaves"])
	wanted, _ := strconv.Atoi(a.wanted)
	switch {
	case a.misconfigured != nil:
		err = a.misconfigured
	case a.fields == nil:
		return fmt.Sprintf("it is unknown whether back end %s takes writes: it refuses INFO", name), nil
	case a.fields["role"] == "slave" && a.fields["slave_read_only"] != "0":
		err = fmt.Errorf("READONLY: it is a replica of %s:%s, whose link is %s", a.fields["master_host"], a.fields["master_port"], a.fields["master_link_status"])
	case good < wanted:
		err = fmt.Errorf("NOREPLICAS: it has %d good replicas, and min-replicas-to-write is %d", good, wanted)
	default:
		return "", nil
	}
	return "", fmt.Errorf("back end %s refuses writes: %w", name, err)
}

// memory returns a note if the memory is full. That doesn't make the server unready: clients can still read and delete,
// and no other server in front of this back end can do more.
func (a *answers) memory(name string) string {
	used, _ := strconv.ParseInt(a.fields["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(a.fields["maxmemory"], 10, 64)
	if most == 0 || used <= most || a.fields["maxmemory_policy"] != "noeviction" {
		return ""
	}
	return fmt.Sprintf("back end %s refuses commands that need memory: used_memory is %d, maxmemory %d", name, used, most)
}

// poolChecks returns one check for each pool.
func poolChecks(probes []poolhost.Probe) (checks []healthCheck) {
	for _, p := range probes {
		checks = append(checks, healthCheck{"pool:" + p.Pool, func(ctx context.Context) (note string, err error) {
			up, down := p.Ask(ctx)
			if len(up) == 0 {
				return "", fmt.Errorf("pool %s: no server answers", p.Pool)
			}
			var lines []string
			for _, s := range down {
				lines = append(lines, fmt.Sprintf("pool %s: server %s is down", p.Pool, s))
			}
			return strings.Join(lines, "\n"), nil
		}})
	}
	return checks
}
