package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
)

// A cache before a database. Who writes invalidates after the commit, and not before:
// what another reads meanwhile is what was there.
func Example_cacheSQL() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:cache?mode=memory&cache=shared")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{`CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)`, `INSERT INTO users VALUES (1, 'Ann')`} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			panic(err)
		}
	}

	server, err := engine.New(engine.Options{}) // or goredis.Open
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
		err = db.QueryRowContext(ctx, `SELECT name FROM users WHERE id = ?`, id).Scan(&name)
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
		if _, err := tx.ExecContext(ctx, `INSERT INTO users VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name`, id, name); err != nil {
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
