package goredis

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// maxMerged is how many keys one MGET asks for, so that the server has time for others,
// and the first of many callers are answered while the last are read.
const maxMerged = 128

// merged are commands of which those MGETs that followed each other are one: its reply is
// theirs in a row. It takes go-redis, and the server, a fraction of what they take for each.
// That is for one server only: the keys of a cluster have different slots.
type merged struct {
	cmds []redoubt.Cmd
	at   []int // the first of the commands that each stands for, and the end
}

// merge merges commands. It is not ok when there is nothing to merge.
func (c *Conn) merge(cmds []redoubt.Cmd) (m merged, ok bool) {
	if c.single == nil || c.apart.Load() {
		return m, false
	}
	pairs := 0
	for i := 1; i < len(cmds); i++ {
		if mergeable(&cmds[i-1]) && mergeable(&cmds[i]) {
			pairs++
		}
	}
	if pairs == 0 {
		return m, false
	}
	m.cmds, m.at = make([]redoubt.Cmd, 0, len(cmds)-pairs+pairs/maxMerged+1), make([]int, 0, len(cmds)-pairs+pairs/maxMerged+2)
	for i := 0; i < len(cmds); {
		end, keys := i+1, len(cmds[i].Keys)
		if mergeable(&cmds[i]) {
			for end < len(cmds) && mergeable(&cmds[end]) && keys+len(cmds[end].Keys) <= maxMerged {
				keys += len(cmds[end].Keys)
				end++
			}
		}
		cmd := cmds[i]
		if end > i+1 {
			cmd.Keys = make([]string, 0, keys)
			for _, one := range cmds[i:end] {
				cmd.Keys = append(cmd.Keys, one.Keys...)
			}
		}
		m.cmds, m.at = append(m.cmds, cmd), append(m.at, i)
		i = end
	}
	m.at = append(m.at, len(cmds))
	return m, true
}

func mergeable(cmd *redoubt.Cmd) bool {
	return cmd.Name == "MGET" && cmd.Flags == redoubt.ReadOnly && len(cmd.Args) == 0 && len(cmd.Keys) > 0
}

// split gives each of the commands that the i-th stands for its part of the reply. It
// returns false when the server refused what it may not refuse to each of them, because
// its keys are in several slots, say.
func (m merged) split(i int, cmds []redoubt.Cmd, r redoubt.Reply, each func(i int, r redoubt.Reply)) bool {
	from, to := m.at[i], m.at[i+1]
	if to == from+1 {
		each(from, r)
		return true
	}
	if _, refused := errors.AsType[redoubt.ServerError](r.Err); refused {
		return false
	}
	values, err := r.Array()
	for ; from < to; from++ {
		n := len(cmds[from].Keys)
		if err != nil || len(values) < n {
			each(from, r)
			continue
		}
		each(from, redoubt.Reply{Val: values[:n:n]})
		values = values[n:]
	}
	return true
}

// eachMerged is eachOf for commands that were merged.
func (c *Conn) eachMerged(ctx context.Context, m merged, cmds []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	var refused []int
	c.eachOf(ctx, m.cmds, func(i int, r redoubt.Reply) {
		if !m.split(i, cmds, r, each) {
			refused = append(refused, i)
		}
	})
	for _, i := range refused {
		c.eachOf(ctx, cmds[m.at[i]:m.at[i+1]], func(j int, r redoubt.Reply) {
			c.understand(r)
			each(m.at[i]+j, r)
		})
	}
}

// pipelineMerged is pipeline for commands that were merged.
func (c *Conn) pipelineMerged(ctx context.Context, m merged, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i, r := range c.pipeline(ctx, m.cmds) {
		if m.split(i, cmds, r, func(i int, r redoubt.Reply) { replies[i] = r }) {
			continue
		}
		for j, r := range c.pipeline(ctx, cmds[m.at[i]:m.at[i+1]]) {
			c.understand(r)
			replies[m.at[i]+j] = r
		}
	}
	return replies
}

// understand is told what a command was answered after it was refused with others: if it
// was not that which was wrong with it, nothing is merged any more.
func (c *Conn) understand(r redoubt.Reply) {
	if r.Err == nil {
		c.apart.Store(true)
	}
}
