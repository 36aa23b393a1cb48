//go:build !quick

package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/redoubt-go/redoubt/fence"
)

// A database that refuses the writes of a holder whose lease has ended. The tokens come from
// three leases of a lock.
func Example_fenceSQL() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file::memory:?cache=shared")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	guard, err := fence.NewSQL(fence.SQLOptions{Dialect: fence.SQLite})
	if err != nil {
		panic(err)
	}
	for _, statement := range []string{
		guard.Schema(), `CREATE TABLE ledger (balance INTEGER)`, `INSERT INTO ledger VALUES (0)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			panic(err)
		}
	}
	for _, token := range []int64{7, 9, 8} {
		err := guard.Do(ctx, db, "ledger", token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE ledger SET balance = balance + 10`)
			return err
		})
		if stale, ok := errors.AsType[*fence.StaleError](err); ok {
			fmt.Println("token", stale.Token, "is refused: the ledger has seen", stale.Current)
		} else if err != nil {
			panic(err)
		}
	}
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM ledger`).Scan(&balance); err != nil {
		panic(err)
	}
	fmt.Println("the balance is", balance)
	// Output:
	// token 8 is refused: the ledger has seen 9
	// the balance is 20
}
