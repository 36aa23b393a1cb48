package dashboard

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redoubt-go/redoubt"
)

// typesPerTurn is how many keys of a turn of the scan are asked for their types.
const typesPerTurn = 100

// A typeSample estimates how many keys of each type there are, from some keys of each turn of the scan.
// names.mu guards it.
type typeSample struct {
	wanted time.Time          // when somebody asked for it last
	turn   []string           // keys of this turn, each with the same chance
	seen   int                // keys in this turn
	now    map[string]float64 // of this pass, so far
	ended  bool               // the pass of now is over
	last   map[string]float64 // of the last whole pass
}

// see takes a key into the sample of the turn, or not.
func (s *typeSample) see(key string) {
	if time.Since(s.wanted) > scanFor {
		return
	}
	s.seen++
	if len(s.turn) < typesPerTurn {
		s.turn = append(s.turn, key)
	} else if at := rand.IntN(s.seen); at < typesPerTurn { //nolint:gosec // a sample
		s.turn[at] = key
	}
}

// typesOfTurn asks for the types of the turn's sample, in one pipeline.
func (n *names) typesOfTurn(ctx context.Context) {
	n.mu.Lock()
	s := &n.sample
	keys, weight, ended := s.turn, 0.0, s.ended
	if len(keys) > 0 {
		weight = float64(s.seen) / float64(len(keys))
	}
	s.turn, s.seen, s.ended = nil, 0, false
	n.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	cmds := make([]redoubt.Cmd, len(keys))
	for i, key := range keys {
		cmds[i] = redoubt.Cmd{Name: "TYPE", Keys: []string{key}, Flags: redoubt.ReadOnly}
	}
	replies := n.client.Pipeline(ctx, cmds)
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.now == nil {
		s.now = map[string]float64{}
	}
	for _, r := range replies {
		if typ, err := r.Text(); err == nil && typ != "none" {
			s.now[typ] += weight
		}
	}
	if ended {
		s.last, s.now = s.now, nil
	}
}

// types returns about how many keys of each type there are: exactly so for up to a hundred keys. It is nil
// before the first keys are known.
func (n *names) types() map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.sample
	s.wanted = time.Now()
	shares := s.last
	if shares == nil {
		shares = s.now
	}
	if shares == nil {
		return nil
	}
	sum := 0.0
	for _, v := range shares {
		sum += v
	}
	all := make(map[string]int64, len(shares))
	for typ, v := range shares {
		all[typ] = int64(math.Round(v / sum * float64(n.keys)))
	}
	return all
}
