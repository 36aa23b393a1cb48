package server

import (
	"context"
	"slices"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// module reports whether the back end has the RedisBloom module, whose commands it then runs itself. The first
// such command asks the back end and waits for the answer. A module that is loaded later is not noticed: the filters
// made until then are not the module's.
func (s *Server) module(ctx context.Context) bool {
	m := &s.modules
	m.Lock()
	defer m.Unlock()
	if m.asked {
		return m.bloom
	}
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	v, err := s.ask(ctx, resp.RESP2, "COMMAND", "INFO", "BF.RESERVE")
	if err != nil {
		return false // the command itself will tell why
	}
	known, _ := v.([]any)
	m.asked, m.bloom = true, len(known) == 1 && known[0] != nil
	return m.bloom
}

// own returns the commands of the table that the back end doesn't have.
func (s *Server) own(ctx context.Context) []*command.Command {
	if !s.module(ctx) {
		return s.table
	}
	return slices.DeleteFunc(slices.Clone(s.table), func(c *command.Command) bool { return c.Module })
}
