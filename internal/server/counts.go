package server

import "github.com/redoubt-go/redoubt/internal/command"

// Decisions returns what the commands of rate limits have decided here: see [command.Env.Decisions].
func (s *Server) Decisions() command.Decisions {
	if s.env == nil {
		return command.Decisions{}
	}
	return s.env.Decisions()
}

// CommandCounts returns what the commands have done here: see [command.Env.Counts].
func (s *Server) CommandCounts() command.Counts {
	if s.env == nil {
		return command.Counts{}
	}
	return s.env.Counts()
}

// Filters returns the keys that BF commands have used here: see [command.Env.Filters].
func (s *Server) Filters() map[string]command.Asked {
	if s.env == nil {
		return nil
	}
	return s.env.Filters()
}

// Takers returns how many clients wait here for messages of each queue, by the key of the queue's wake-up
// marker: in QUEUE.TAKE, or as a consumer of the library does, in BZPOPMIN on the marker.
func (s *Server) Takers() map[string]int {
	all := map[string]int{}
	if s.env != nil {
		s.env.Takers(all)
	}
	for _, c := range s.clients() {
		if marker := c.marker.Load(); marker != nil && waits(c) {
			all[*marker]++
		}
	}
	return all
}

// waitFor notes which marker of a queue a client is about to wait for, if any, in a command on these keys.
func (c *session) waitFor(keys [][]byte) {
	var marker *string
	if len(keys) > 0 && command.IsMarker(keys[0]) {
		key := string(keys[0])
		marker = &key
	}
	c.marker.Store(marker)
}
