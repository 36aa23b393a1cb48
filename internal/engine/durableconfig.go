package engine

import (
	"path/filepath"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// tellDurability makes CONFIG GET answer what is true of an engine with a log,
// in Redis' words: what it calls no is never here.
func (e *Engine) tellDurability() {
	fsync := e.opts.Fsync.String()
	if e.opts.Fsync == aof.Never {
		fsync = "no"
	}
	dir, err := filepath.Abs(e.opts.Dir)
	if err != nil {
		dir = e.opts.Dir
	}
	v := e.config.values
	v["appendonly"], v["appendfsync"], v["dir"] = "yes", fsync, dir
}
