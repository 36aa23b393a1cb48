package scan

import (
	"fmt"
	"maps"
	"slices"
)

// keyToken is the position of a keyWalk.
type keyToken struct {
	Query   string            `json:"q"`
	Cluster bool              `json:"k,omitempty"`
	Covered string            `json:"d,omitempty"`
	Handed  map[string]string `json:"h,omitempty"`
	Parts   []partToken       `json:"p,omitempty"`
	Nodes   []string          `json:"i,omitempty"` // all that were seen, of a cluster
	Scanned int64             `json:"n,omitempty"`
	Total   int64             `json:"t,omitempty"`
}

type partToken struct {
	Node    string `json:"i"`
	Process string `json:"r,omitempty"` // empty: the same as Node
	Cursor  string `json:"c,omitempty"`
	Mark    *mark  `json:"m,omitempty"`
	Ended   bool   `json:"e,omitempty"`
	Own     string `json:"o,omitempty"`
	Shaky   string `json:"s,omitempty"`
	Rest    string `json:"h,omitempty"`
	Gone    string `json:"g,omitempty"`
}

func (w *keyWalk) text() string { return fmt.Sprintf("keys %+q %+q", w.query.Match, w.query.Type) }

func (w *keyWalk) token() string {
	if w.resumed != nil { // nothing was done since
		return encodeToken(w.resumed)
	}
	t := keyToken{Query: w.text(), Scanned: w.looked, Total: w.total}
	if w.begun {
		t.Cluster, t.Covered, t.Nodes = w.cluster, w.plan.covered.String(), w.nodes
		for to, handed := range w.plan.handed {
			if handed.len() > 0 {
				if t.Handed == nil {
					t.Handed = map[string]string{}
				}
				t.Handed[to] = handed.String()
			}
		}
		for _, p := range w.plan.parts {
			if p.process == "" { // of a process that is no more
				continue
			}
			t.Parts = append(t.Parts, partToken{p.node, p.process, p.cursor, p.mark.forToken(), p.ended, p.own.String(), p.shaky.String(), p.rest.String(), p.gone.String()})
		}
	}
	return encodeToken(t)
}

func (w *keyWalk) resume(token string) error {
	var t keyToken
	if err := decodeToken(token, &t); err != nil {
		return err
	}
	if err := checkQuery(t.Query, w.text()); err != nil {
		return err
	}
	w.looked, w.total, w.cluster, w.nodes = t.Scanned, t.Total, t.Cluster, t.Nodes
	if err := w.plan.covered.parse(t.Covered); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	for _, to := range slices.Sorted(maps.Keys(t.Handed)) {
		var s slots
		if err := s.parse(t.Handed[to]); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidToken, err)
		}
		for slot := range s.all() {
			w.plan.hand(slot, to)
		}
	}
	for _, pt := range t.Parts {
		p := &part{node: pt.Node, process: pt.Process, cursor: pt.Cursor, mark: pt.Mark, ended: pt.Ended}
		for _, err := range []error{checkCursor(p.cursor), p.mark.check(), p.own.parse(pt.Own), p.shaky.parse(pt.Shaky), p.rest.parse(pt.Rest), p.gone.parse(pt.Gone)} {
			if err != nil {
				return fmt.Errorf("%w: %w", ErrInvalidToken, err)
			}
		}
		w.plan.parts = append(w.plan.parts, p)
	}
	w.begun = t.Covered != "" || len(t.Parts) > 0 || len(t.Handed) > 0
	w.resumed = &t
	return nil
}

// compare checks, in the first round, whether a token is from these servers. A token of other servers
// would make the scan skip the slots that it covered there.
func (w *keyWalk) compare(now *snapshot) error {
	t := w.resumed
	if t == nil || !w.begun {
		w.resumed = nil
		w.note(now)
		return nil
	}
	known := slices.ContainsFunc(t.Nodes, func(id string) bool { return now.nodes[id] != nil })
	switch {
	case t.Cluster != now.cluster:
		kind := map[bool]string{true: "a cluster", false: "one server"}
		return fmt.Errorf("%w: it is of %s, and this is %s", ErrInvalidToken, kind[t.Cluster], kind[now.cluster])
	case t.Cluster && t.Covered != "" && !known:
		return fmt.Errorf("%w: it is of another cluster: none of its nodes is here", ErrInvalidToken)
	}
	w.resumed = nil
	w.note(now)
	return nil
}

// note keeps the ids of the primaries of a cluster.
func (w *keyWalk) note(now *snapshot) {
	if !now.cluster {
		return
	}
	for id := range now.nodes {
		if !slices.Contains(w.nodes, id) {
			w.nodes = append(w.nodes, id)
		}
	}
}
