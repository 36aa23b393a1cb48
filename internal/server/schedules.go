package server

import (
	"context"
	"time"
)

const (
	// schedulesAfter is how long a new server leaves the schedules of queues to others.
	schedulesAfter = time.Second
	// schedulesTold is how often a server that can't read the schedules says so.
	schedulesTold = time.Minute
)

// runSchedules puts the messages of the schedules of all queues. All servers in front of one back end do.
func (s *Server) runSchedules() {
	select {
	case <-time.After(schedulesAfter):
	case <-s.ctx.Done():
		return
	}
	var told time.Time
	_ = s.env.RunSchedules(s.ctx, func(ctx context.Context, queue, id string, err error) { // it ends with s
		switch now := time.Now(); {
		case ctx.Err() != nil:
		case queue == "": // whether there are any is unknown; who serves clients logs that the back end is down
			s.opts.Logger.Debug("the queues with schedules can't be read", "error", err)
		case id != "":
			s.opts.Logger.Error("a schedule can't be used; the others go on", "queue", queue, "schedule", id, "error", err)
		case now.Sub(told) >= schedulesTold:
			told = now
			s.opts.Logger.Warn("the schedules of queues stand still", "queue", queue, "error", err)
		}
	})
}
