//go:build !quick

package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// eachSQL runs a test on every database that there is, with an empty table of
// data and a guard.
func eachSQL(t *testing.T, run func(t *testing.T, db *sql.DB, guard *fence.SQL)) {
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "data.db")
		run(t, openSQL(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"), guardSQL(t, fence.SQLite, ""))
	})
	t.Run("postgres", func(t *testing.T) {
		if os.Getenv("PGHOST") == "" {
			// A database server is more than a test should start by itself.
			t.Skip("PGHOST names no PostgreSQL: see CONTRIBUTING.md")
		}
		// A schema of its own, so that a database with data is left as it is.
		const schema = "redoubt_test"
		admin := openSQL(t, "postgres", "")
		execSQL(t, admin, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		execSQL(t, admin, "CREATE SCHEMA "+schema)
		t.Cleanup(func() { _, _ = admin.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE") })
		run(t, openSQL(t, "postgres", "search_path="+schema), guardSQL(t, fence.PostgreSQL, schema+".tokens"))
	})
}

func openSQL(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func guardSQL(t *testing.T, d fence.Dialect, table string) *fence.SQL {
	t.Helper()
	g, err := fence.NewSQL(fence.SQLOptions{Dialect: d, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func execSQL(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// makeTables makes the guard's table, twice, and one for data.
func makeTables(t *testing.T, db *sql.DB, guard *fence.SQL) {
	t.Helper()
	execSQL(t, db, guard.Schema())
	execSQL(t, db, guard.Schema())
	execSQL(t, db, "CREATE TABLE written (token BIGINT NOT NULL)")
}

// write writes token, guarded by itself.
func write(ctx context.Context, db *sql.DB, guard *fence.SQL, token int64) error {
	return guard.Do(ctx, db, "ledger", token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO written VALUES (%d)", token))
		return err
	})
}

// written returns the tokens in the order in which they were written.
func written(t *testing.T, db *sql.DB, order string) (tokens []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT token FROM written ORDER BY "+order)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

func staleSQL(t *testing.T, err error, token, largest int64) {
	t.Helper()
	se, ok := errors.AsType[*fence.StaleError](err)
	if !ok || !errors.Is(err, fence.ErrStale) || se.Token != token || se.Current != largest || se.Resource != "ledger" {
		t.Errorf("error %v, want that %d has been seen", err, largest)
	}
}

func TestFenceSQL(t *testing.T) {
	eachSQL(t, func(t *testing.T, db *sql.DB, guard *fence.SQL) {
		makeTables(t, db, guard)
		do := func(token int64) error { return write(t.Context(), db, guard, token) }
		for _, token := range []int64{7, 7, 8, fence.MaxToken - 1} {
			if err := do(token); err != nil {
				t.Errorf("%d: %v", token, err)
			}
		}
		staleSQL(t, do(7), 7, fence.MaxToken-1)
		staleSQL(t, do(fence.MaxToken-2), fence.MaxToken-2, fence.MaxToken-1)

		// A function that fails or panics is rolled back, its token too.
		broken := errors.New("broken")
		if err := guard.Do(t.Context(), db, "ledger", fence.MaxToken, func(*sql.Tx) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the function", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = guard.Do(t.Context(), db, "ledger", fence.MaxToken, func(*sql.Tx) error { panic(broken) })
		}()
		if err := do(fence.MaxToken - 1); err != nil {
			t.Error(err)
		}
		// Others have tokens of their own.
		if err := guard.Do(t.Context(), db, "other", 1, func(*sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		want := []int64{7, 7, 8, fence.MaxToken - 1, fence.MaxToken - 1}
		if got := written(t, db, "token"); !slices.Equal(got, want) {
			t.Errorf("written %v, want %v", got, want)
		}

		for _, bad := range []struct {
			resource string
			token    int64
		}{{"", 1}, {string(make([]byte, redoubt.MaxName+1)), 1}, {"r", 0}, {"r", fence.MaxToken + 1}} {
			if err := guard.Do(t.Context(), db, bad.resource, bad.token, func(*sql.Tx) error { return nil }); err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("%d for %.5q: %v", bad.token, bad.resource, err)
			}
		}
	})
}

// Many write with tokens in any order, and roll back now and then. In the order
// in which they were written, tokens never fall.
func TestFenceSQLConcurrently(t *testing.T) {
	eachSQL(t, func(t *testing.T, db *sql.DB, guard *fence.SQL) {
		execSQL(t, db, guard.Schema())
		serial := "id INTEGER PRIMARY KEY AUTOINCREMENT"
		if t.Name() == "TestFenceSQLConcurrently/postgres" {
			serial = "id SERIAL PRIMARY KEY"
		}
		execSQL(t, db, "CREATE TABLE written ("+serial+", token BIGINT NOT NULL)")
		const writers, tokens = 6, 40
		dropped := errors.New("dropped")
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for n := range int64(tokens) {
					token := 1 + (n*7+int64(i))%tokens/2 + n/2
					err := guard.Do(t.Context(), db, "ledger", token, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO written (token) VALUES (%d)", token))
						if err == nil && n%5 == 0 {
							err = dropped
						}
						return err
					})
					if err != nil && !errors.Is(err, fence.ErrStale) && !errors.Is(err, dropped) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		got := written(t, db, "id")
		if !slices.IsSorted(got) {
			t.Errorf("tokens fall: %v", got)
		}
		if len(got) < 10 || len(got) == writers*tokens*4/5 {
			t.Errorf("%d of %d were written: the test shows nothing", len(got), writers*tokens)
		}
	})
}

// A smaller token comes while the transaction with a larger one is not yet
// committed: it waits for that, and is refused.
func TestFenceSQLWaits(t *testing.T) {
	eachSQL(t, func(t *testing.T, db *sql.DB, guard *fence.SQL) {
		makeTables(t, db, guard)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := guard.Accept(t.Context(), tx, "ledger", 9); err != nil {
			t.Fatal(err)
		}
		late := make(chan error, 1)
		go func() { late <- write(t.Context(), db, guard, 8) }()
		if t.Name() == "TestFenceSQLWaits/postgres" {
			eventually(t, "the second waits", func() bool {
				var n int
				err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%tokens%'`).Scan(&n)
				return err == nil && n == 1
			})
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		staleSQL(t, <-late, 8, 9)
	})
}

func TestFenceSQLOptions(t *testing.T) {
	for _, o := range []fence.SQLOptions{
		{}, {Dialect: 9}, {Dialect: fence.SQLite, Table: "a b"}, {Dialect: fence.SQLite, Table: "a;b"},
		{Dialect: fence.SQLite, Table: "a.b.c"}, {Dialect: fence.PostgreSQL, Table: `"a"`}, {Dialect: fence.PostgreSQL, Table: "1a"},
	} {
		if _, err := fence.NewSQL(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, patience, what, ok)
}
