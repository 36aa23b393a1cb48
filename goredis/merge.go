package goredis

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// maxMerged is the greatest number of keys of one MGET. It leaves the server time for other clients.
const maxMerged = 128

// merged are commands in which one MGET stands for the adjacent MGETs of a pipeline. Its reply has their
// replies in a row. It costs go-redis and the server a fraction of separate commands. It is for one server
// only, because the keys of a cluster have different slots.
type merged struct {
	cmds []redoubt.Cmd
	at   []int // the first of the commands that each stands for, and the end
}

// merge merges commands. It is not ok when there is nothing to merge.
func (c *Conn) merge(cmds []redoubt.Cmd) (m merged, ok bool) {
	if c.single == nil || c.unmerged.Load() {
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

// eachMerged is eachOf for commands that were merged.
func (c *Conn) eachMerged(ctx context.Context, m merged, cmds []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	var again []int
	c.eachOf(ctx, m.cmds, func(i int, r redoubt.Reply) {
		again = append(again, c.split(m, i, cmds, r, each)...)
	})
	if len(again) > 0 {
		c.eachOf(ctx, pick(cmds, again), func(i int, r redoubt.Reply) { each(again[i], r) })
	}
}

// pipelineMerged is pipeline for commands that were merged.
func (c *Conn) pipelineMerged(ctx context.Context, m merged, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	var again []int
	for i, r := range c.pipeline(ctx, m.cmds) {
		again = append(again, c.split(m, i, cmds, r, func(i int, r redoubt.Reply) { replies[i] = r })...)
	}
	if len(again) > 0 {
		for i, r := range c.pipeline(ctx, pick(cmds, again)) {
			replies[again[i]] = r
		}
	}
	return replies
}

// split gives each of the commands that the i-th stands for its part of the reply, or
// returns them: then they have to be sent each by itself.
func (c *Conn) split(m merged, i int, cmds []redoubt.Cmd, r redoubt.Reply, each func(i int, r redoubt.Reply)) (again []int) {
	from, to := m.at[i], m.at[i+1]
	if to == from+1 {
		each(from, r)
		return nil
	}
	if redoubt.IsCode(r.Err, "CROSSSLOT") { // it is a node of a cluster
		c.unmerged.Store(true)
	}
	values, err := r.Array()
	if refusesMerge(err) || err == nil && len(values) != len(m.cmds[i].Keys) {
		for ; from < to; from++ {
			again = append(again, from)
		}
		return again
	}
	for ; from < to; from++ {
		if err != nil {
			each(from, r)
			continue
		}
		n := len(cmds[from].Keys)
		each(from, redoubt.Reply{Val: values[:n:n]})
		values = values[n:]
	}
	return nil
}

// refusesMerge reports whether a server has refused a merged command for a reason that may concern only some of
// its keys: they are in several slots, the user may not read one, or a proxy can't reach one. Temporary
// errors, like LOADING, were waited for already.
func refusesMerge(err error) bool {
	se, _ := errors.AsType[redoubt.ServerError](err)
	switch se.Code() {
	case "CROSSSLOT", "MOVED", "ASK", "NOPERM", "ERR":
		return true
	}
	return false
}

func pick(cmds []redoubt.Cmd, at []int) []redoubt.Cmd {
	out := make([]redoubt.Cmd, len(at))
	for i, j := range at {
		out[i] = cmds[j]
	}
	return out
}
