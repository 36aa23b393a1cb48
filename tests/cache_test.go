//go:build !quick

package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
)

// openUsers opens a database with a table of users: PostgreSQL where PGHOST names one, in
// a schema that is dropped afterwards, and SQLite in the process otherwise.
func openUsers(ctx context.Context) (db *sql.DB, end func(), err error) {
	const schema = "redoubt_example"
	statements := []string{`CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)`, `INSERT INTO users VALUES (1, 'Ann')`}
	drop := ""
	if os.Getenv("PGHOST") == "" {
		db, err = sql.Open("sqlite", "file:cache?mode=memory&cache=shared")
	} else {
		db, err = sql.Open("postgres", "search_path="+schema)
		drop = `DROP SCHEMA IF EXISTS ` + schema + ` CASCADE`
		statements = append([]string{drop, `CREATE SCHEMA ` + schema}, statements...)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
	}
	return db, func() {
		if drop != "" {
			_, _ = db.ExecContext(ctx, drop)
		}
		_ = db.Close()
	}, nil
}

// A cache in front of a database. A writer invalidates after the commit and not before: a reader
// in between would load the old value again.
func Example_cacheSQL() {
	ctx := context.Background()
	db, end, err := openUsers(ctx)
	if err != nil {
		panic(err)
	}
	defer end()

	server, err := engine.Open(ctx, engine.Options{}) // or goredis.Open
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	client, err := redoubt.New(server, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	users, err := cache.New(client, cache.Options[int64, string]{Name: "users", TTL: time.Hour})
	if err != nil {
		panic(err)
	}
	defer func() { _ = users.Close() }()

	load := func(ctx context.Context, id int64) (name string, found bool, err error) {
		fmt.Println("SELECT user", id)
		err = db.QueryRowContext(ctx, `SELECT name FROM users WHERE id = $1`, id).Scan(&name)
		if errors.Is(err, sql.ErrNoRows) {
			return "", false, nil
		}
		return name, err == nil, err
	}
	show := func(id int64) {
		name, found, err := users.Get(ctx, id, load)
		fmt.Printf("user %d: %q %v %v\n", id, name, found, err)
	}
	rename := func(id int64, name string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, `INSERT INTO users VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = excluded.name`, id, name); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		return users.Invalidate(ctx, id)
	}

	show(1)
	show(1)
	show(2) // that there is none is remembered
	show(2)
	if err := errors.Join(rename(1, "Anna"), rename(2, "Bob")); err != nil {
		panic(err)
	}
	show(1)
	show(2)
	// Output:
	// SELECT user 1
	// user 1: "Ann" true <nil>
	// user 1: "Ann" true <nil>
	// SELECT user 2
	// user 2: "" false <nil>
	// user 2: "" false <nil>
	// SELECT user 1
	// user 1: "Anna" true <nil>
	// SELECT user 2
	// user 2: "Bob" true <nil>
}
