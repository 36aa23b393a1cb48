package transfer

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// AnyDatabase stands for all databases of a server.
const AnyDatabase = -1

// A Server is a server or an engine, to take keys from or to bring them to. It
// has one connection, and is for one goroutine at a time.
type Server struct {
	c       *conn
	only    int // database, or AnyDatabase
	engine  bool
	version string // as the server says, of Redis or Valkey
	format  int    // of the payloads that it takes
	dbs     map[int]int64
	times   bool // PEXPIRETIME is there

	seen map[uint64]struct{} // of the keys taken from here, or nil
}

// NewServer connects to a server. db is the only database to take from it or to
// bring keys to, or [AnyDatabase].
func NewServer(ctx context.Context, b Backend, db int) (*Server, error) {
	c, err := dial(ctx, b)
	if err != nil {
		return nil, err
	}
	s := &Server{c: c, only: db}
	if err := s.ask(ctx); err != nil {
		c.close()
		return nil, err
	}
	return s, nil
}

// Close ends the connection.
func (s *Server) Close() { s.c.close() }

// Name is that of the server in errors.
func (s *Server) Name() string { return s.c.name }

// ask finds out what the server is.
func (s *Server) ask(ctx context.Context) error {
	text, err := s.c.do(ctx, "INFO")
	if err != nil {
		return err
	}
	info, _ := text.(string)
	s.dbs = map[int]int64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redoubt_engine":
			s.engine = true
		case "cluster_enabled":
			if value == "1" {
				return fmt.Errorf("%s is a node of a cluster, whose keys are on other nodes, too: "+
					"use the RDB file of each primary", s.c.name)
			}
		case "redis_version":
			if s.version == "" {
				s.version = value
			}
		case "valkey_version":
			s.version = "valkey " + value
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			count, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			if s.dbs[n], err = strconv.ParseInt(count, 10, 64); err != nil {
				return fmt.Errorf("%s: INFO says %q", s.c.name, line)
			}
		}
	}
	s.format = format(s.version, s.engine)
	add(s.c, "PEXPIRETIME", "redoubt:no such key")
	return s.c.flush(ctx, func(_ int, reply any) error {
		_, failed := reply.(resp.Error)
		s.times = !failed
		return nil
	})
}

// format is the newest version of payloads that a server takes.
func format(version string, engine bool) int {
	version, valkey := strings.CutPrefix(version, "valkey ")
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 0 when it is none
	switch {
	case engine || !valkey && (major > 7 || major == 7 && minor >= 4):
		return rdb.VersionFieldTTL
	case major > 7 || major == 7 && minor >= 2:
		return 11
	case major == 7:
		return 10
	}
	return 9
}

// selectDB makes the next commands concern a database.
func (s *Server) selectDB(ctx context.Context, db int) error {
	if s.c.db == db {
		return nil
	}
	if _, err := s.c.do(ctx, "SELECT", strconv.Itoa(db)); err != nil {
		return fmt.Errorf("database %d: %w", db, err)
	}
	s.c.db = db
	return nil
}
