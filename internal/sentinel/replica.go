package sentinel

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// A replica is a [proxy.Failover] for any replica of a master.
type replica struct{ *Master }

// Replica returns the back end for replicas of the master. Each connection goes to a random replica that
// the Sentinels consider healthy. The connections end when the master changes.
func (m *Master) Replica() proxy.Failover { return replica{m} }

// Name implements [proxy.Backend].
func (r replica) Name() string { return r.opts.Label + " replica" }

// Open implements [proxy.Backend].
func (r replica) Open(ctx context.Context) (net.Conn, error) {
	addrs, err := r.group.replicas(ctx, r.opts.Name)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	errs := []error{errors.New("the Sentinels know of no replica that is well")}
	for _, addr := range addrs {
		conn, err := r.opts.Server(addr).Open(ctx)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// replicas returns where the replicas of a master are, as one of the Sentinels says.
func (g *Group) replicas(ctx context.Context, name string) ([]string, error) {
	var errs []error
	for _, s := range g.sentinels {
		all, err := s.Replicas(ctx, name).Result()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var well []string
		for _, r := range all {
			flags := strings.Split(r["flags"], ",")
			ill := slices.ContainsFunc([]string{"s_down", "o_down", "disconnected", "master"}, func(f string) bool { return slices.Contains(flags, f) })
			if !ill && r["master-link-status"] == "ok" {
				well = append(well, net.JoinHostPort(r["ip"], r["port"]))
			}
		}
		return well, nil
	}
	return nil, errors.Join(errs...)
}
