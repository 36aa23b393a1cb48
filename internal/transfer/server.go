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

// A Server is a server or an engine, as a source or a target. It has one connection. Only one goroutine at a
// time may use it.
type Server struct {
	c       *conn
	only    int // database, or AnyDatabase
	engine  bool
	version string // from INFO
	format  int    // newest version of DUMP payloads that it accepts
	dbs     map[int]int64
	listed  bool // dbs has all its databases; not so for a pool or another proxy
	times   bool // it has PEXPIRETIME

	able      bool     // it tells its libraries of functions
	functions []string // their names

	seen map[uint64]struct{} // hashes of the keys read so far, or nil
}

// NewServer connects to a server. db is the only database to copy from or to, or [AnyDatabase].
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

// Close closes the connection.
func (s *Server) Close() { s.c.close() }

// Name is the name of the server in errors.
func (s *Server) Name() string { return s.c.name }

// ask reads the kind and the version of the server.
func (s *Server) ask(ctx context.Context) error {
	text, err := s.c.do(ctx, "INFO")
	if err != nil {
		return err
	}
	info, _ := text.(string)
	s.dbs = map[int]int64{}
	for line := range strings.Lines(info) {
		s.listed = s.listed || strings.TrimSpace(line) == "# Keyspace"
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
		if n, keys, ok := database(name, value); ok && keys < 0 {
			return fmt.Errorf("%s: INFO says %q", s.c.name, line)
		} else if ok {
			s.dbs[n] = keys
		}
	}
	s.format = format(s.version, s.engine)
	add(s.c, "PEXPIRETIME", "redoubt:no such key")
	add(s.c, "FUNCTION", "LIST")
	return s.c.flush(ctx, func(i int, reply any) error {
		if i == 1 {
			s.functions, s.able = names(reply)
			return nil
		}
		_, failed := reply.(resp.Error)
		s.times = !failed
		return nil
	})
}

// format returns the newest version of DUMP payloads that a server accepts.
func format(version string, engine bool) int {
	version, valkey := strings.CutPrefix(version, "valkey ")
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 0 on an error
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

// selectDB selects the database of the next commands.
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
