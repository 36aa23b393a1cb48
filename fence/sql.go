package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/fence"
)

// A Dialect is the SQL that a database speaks.
type Dialect uint8

const (
	// PostgreSQL is PostgreSQL 9.5 or newer.
	PostgreSQL Dialect = iota + 1
	// SQLite is SQLite 3.35 or newer.
	SQLite
)

// SQLOptions configure an [SQL].
type SQLOptions struct {
	// Dialect must be set.
	Dialect Dialect
	// Table is the table of tokens, a name or schema.name of letters, digits
	// and underscores. Defaults to "redoubt_fence".
	Table string
}

// An SQL lets a transaction on a database go on only with a fencing token that is
// not smaller than the largest seen for the resource that it changes. The tokens
// are in a table beside the data: make it with [SQL.Schema]. Make one SQL for a
// database and use it for every resource.
//
// [SQL.Do] is what most callers should use. All methods may be called by many
// goroutines at once. An SQL holds no connection and keeps nothing between calls.
type SQL struct {
	schema, accept, largest string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// NewSQL returns an SQL. It sends nothing.
func NewSQL(opts SQLOptions) (*SQL, error) {
	if opts.Table == "" {
		opts.Table = "redoubt_fence"
	}
	var errs []error
	if opts.Dialect != PostgreSQL && opts.Dialect != SQLite {
		errs = append(errs, fmt.Errorf("fence: dialect is %d; want PostgreSQL or SQLite", opts.Dialect))
	}
	if !tableName.MatchString(opts.Table) {
		errs = append(errs, fmt.Errorf("fence: table is %q; want a name of letters, digits and underscores, or two with a dot between", opts.Table))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// The upsert waits for a transaction on the same resource to end, looks at
	// the row as that left it, and holds it until this one ends: so no token is
	// compared with one that is out of date. Rejected: SELECT and then UPDATE,
	// which needs FOR UPDATE, and has nothing to lock at the first time.
	s := &SQL{
		schema: `CREATE TABLE IF NOT EXISTS $table (resource TEXT PRIMARY KEY, token BIGINT NOT NULL)`,
		accept: `INSERT INTO $table AS held (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE held.token <= excluded.token
RETURNING token`,
		largest: `SELECT token FROM $table WHERE resource = $1`,
	}
	fill := []string{"$table", opts.Table}
	if opts.Dialect == SQLite {
		fill = append(fill, "$1", "?1", "$2", "?2")
	}
	for _, text := range []*string{&s.schema, &s.accept, &s.largest} {
		*text = strings.NewReplacer(fill...).Replace(*text)
	}
	return s, nil
}

// Schema returns the statement that makes the table, unless it is there. Run it
// once, or put it among the migrations.
func (s *SQL) Schema() string { return s.schema }

// Do runs fn inside a transaction on db, if token is not smaller than the largest
// seen for the resource, and commits it if fn returns nil. Otherwise, and when fn
// panics, it is rolled back. When the token is smaller fn is not run and the error
// is a [*StaleError].
//
// Transactions on one resource run one after the other.
func (s *SQL) Do(ctx context.Context, db *sql.DB, resource string, token int64, fn func(tx *sql.Tx) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := s.Accept(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Accept remembers token for the resource in tx, if it is not smaller than the
// largest seen. If it is, the error is a [*StaleError], and tx must be rolled
// back. Call it before the writes that it guards, in their transaction: another
// on the same resource waits for its end. It costs one round trip.
//
// At isolation levels above READ COMMITTED the database may refuse one of two
// transactions at the same time, with an error of its own: run that again.
func (s *SQL) Accept(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if err := wire.CheckToken(token); err != nil {
		return err
	}
	if len(resource) == 0 || len(resource) > redoubt.MaxName {
		return fmt.Errorf("%w: the resource has %d bytes; want 1 to %d", redoubt.ErrInvalidName, len(resource), redoubt.MaxName)
	}
	var largest int64
	err := tx.QueryRowContext(ctx, s.accept, resource, token).Scan(&largest)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := tx.QueryRowContext(ctx, s.largest, resource).Scan(&largest); err != nil {
		return err
	}
	return &StaleError{Resource: resource, Token: token, Largest: largest}
}
