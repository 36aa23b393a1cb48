package faults

import (
	"context"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
)

// stepped is a Conn whose scripts read a clock that [Site.step] steps: TIME and
// the number at "<prefix>:{<tag>}:step", in the slot of their keys.
type stepped struct{ *goredis.Conn }

const (
	theTime     = `redis.call('TIME')`
	steppedTime = `(function()
  local t = redis.call('TIME')
  t[1] = t[1] + (redis.call('GET', string.match(KEYS[1], '^[^}]*}') .. ':step') or 0)
  return t
end)()`
)

// steppedScripts maps each original script to its replacement.
var steppedScripts sync.Map

func step(c redoubt.Cmd) redoubt.Cmd {
	if c.Script == nil {
		return c
	}
	s, ok := steppedScripts.Load(c.Script)
	if !ok {
		source := strings.ReplaceAll(c.Script.Source(), theTime, steppedTime)
		s, _ = steppedScripts.LoadOrStore(c.Script, redoubt.NewScript(c.Script.Name(), source))
	}
	c.Script = s.(*redoubt.Script)
	return c
}

func stepAll(cs []redoubt.Cmd) []redoubt.Cmd {
	out := make([]redoubt.Cmd, len(cs))
	for i, c := range cs {
		out[i] = step(c)
	}
	return out
}

func (c stepped) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return c.Conn.Do(ctx, step(cmd))
}

func (c stepped) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	return c.Conn.Pipeline(ctx, stepAll(cs))
}

func (c stepped) PipelineEach(ctx context.Context, cs []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	c.Conn.PipelineEach(ctx, stepAll(cs), each)
}
