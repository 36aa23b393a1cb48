package fence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/lock"
)

// A holder is paused for longer than its lease. Its late write is refused.
func Example() {
	ctx, client := context.Background(), connect()

	// NoRenew stands for a process that is stopped: nobody renews its lease.
	locks, err := lock.New(client, lock.Options{TTL: 20 * time.Millisecond, NoRenew: true})
	if err != nil {
		panic(err)
	}
	guard, err := fence.New(client, fence.Options{})
	if err != nil {
		panic(err)
	}
	write := func(lease *lock.Lease, balance string) error {
		return guard.Do(ctx, "ledger", lease.Token(), redoubt.Cmd{
			Name: "SET", Keys: []string{"ledger"}, Args: []string{balance}, Flags: redoubt.Idempotent,
		}).Err
	}

	paused, err := locks.Acquire(ctx, "ledger")
	if err != nil {
		panic(err)
	}
	fmt.Println("the first writes:", write(paused, "100"))
	next, err := locks.Acquire(ctx, "ledger") // when the lease of the first has run out
	if err != nil {
		panic(err)
	}
	fmt.Println("the next writes: ", write(next, "200"))
	fmt.Println("the first wakes up and writes:", errors.Is(write(paused, "110"), fence.ErrStale))
	fmt.Println("the ledger holds", client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{"ledger"}}).Val)
	// Output:
	// the first writes: <nil>
	// the next writes:  <nil>
	// the first wakes up and writes: true
	// the ledger holds 200
}

// A script that reads and writes, with the check of the token before it.
func ExampleGuard_Do_script() {
	ctx, client := context.Background(), connect()

	guard, err := fence.New(client, fence.Options{})
	if err != nil {
		panic(err)
	}
	withdraw := redoubt.NewScript("withdraw", `
		local balance = tonumber(redis.call('GET', KEYS[1]) or 0)
		if balance < tonumber(ARGV[1]) then return {0, balance} end
		return {1, redis.call('DECRBY', KEYS[1], ARGV[1])}
	`)
	if err := client.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{"account"}, Args: []string{"50"}}).Err; err != nil {
		panic(err)
	}
	for _, token := range []int64{7, 9, 8} { // the tokens of three leases
		reply := guard.Do(ctx, "account", token, redoubt.Cmd{
			Script: withdraw, Keys: []string{"account"}, Args: []string{"20"},
		})
		if stale, ok := errors.AsType[*fence.StaleError](reply.Err); ok {
			fmt.Println("token", token, "is refused: the account has seen", stale.Current)
			continue
		}
		if reply.Err != nil {
			panic(reply.Err)
		}
		fmt.Println("token", token, "leaves", reply.Val.([]any)[1])
	}
	// Output:
	// token 7 leaves 30
	// token 9 leaves 10
	// token 8 is refused: the account has seen 9
}
