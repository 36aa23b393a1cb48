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

// A Dialect is the SQL dialect of a database.
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

// An SQL commits a transaction only with a fencing token that is at least the
// largest token seen for the resource that the transaction changes. The tokens are
// in a table beside the data: create it with [SQL.Schema]. Make one SQL for a
// database and use it for every resource.
//
// Most callers use [SQL.Do]. All methods may be called by many goroutines at once.
// An SQL holds no connection and keeps nothing between calls.
type SQL struct {
	schema, accept, largest string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// NewSQL returns an SQL. It sends nothing. The error joins all that is wrong with
// the options.
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
	// The upsert waits until other transactions on the same resource have ended,
	// reads the row that they left, and locks it until this transaction ends: no
	// token is compared with an outdated one. Rejected: SELECT and then UPDATE. It
	// needs FOR UPDATE, and has no row to lock the first time.
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

// Schema returns the statement that creates the table unless it exists. Run it
// once, or add it to the migrations.
func (s *SQL) Schema() string { return s.schema }

// Do runs fn in a transaction on db if token is at least the largest token seen
// for the resource. It commits when fn returns nil, and rolls back when fn returns
// an error or panics. When the token is smaller, fn does not run and the error is
// a [*StaleError].
//
// Transactions on one resource run one after the other. The check costs one round
// trip.
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

// Accept remembers token for the resource in tx, if it is at least the largest
// token seen. Otherwise the error is a [*StaleError], and the caller must roll tx
// back. Call it in the transaction of the writes that it guards, before them: other
// transactions on the same resource wait until tx ends. One round trip.
//
// At isolation levels above READ COMMITTED the database may refuse one of two
// concurrent transactions with an error of its own: run that one again.
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
	return &StaleError{Resource: resource, Token: token, Current: largest}
}
