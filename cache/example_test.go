package cache_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
)

// A user is what the examples keep.
type user struct{ Name string }

// Example asks the source once for each user. The cache also remembers that there is no user 2.
func Example() {
	ctx, client := context.Background(), exampleserver.Connect()
	defer func() { _ = client.Close() }()
	database := map[int64]user{1: {"Ann"}}
	load := func(_ context.Context, id int64) (user, bool, error) {
		fmt.Println("the database is asked for", id)
		u, found := database[id]
		return u, found, nil
	}
	users, err := cache.New(client, cache.Options[int64, user]{Name: "users", TTL: time.Hour})
	if err != nil {
		panic(err)
	}
	defer func() { _ = users.Close() }()
	for _, id := range []int64{1, 1, 2, 2} {
		u, found, err := users.Get(ctx, id, load)
		fmt.Println(u.Name, found, err)
	}

	database[2] = user{"Bob"} // and when that is committed:
	if err := users.Invalidate(ctx, 2); err != nil {
		panic(err)
	}
	u, found, err := users.Get(ctx, 2, load)
	fmt.Println(u.Name, found, err)
	// Output:
	// the database is asked for 1
	// Ann true <nil>
	// Ann true <nil>
	// the database is asked for 2
	//  false <nil>
	//  false <nil>
	// the database is asked for 2
	// Bob true <nil>
}

// ExampleCache_GetMany asks the source for many keys at once.
func ExampleCache_GetMany() {
	ctx, client := context.Background(), exampleserver.Connect()
	defer func() { _ = client.Close() }()
	users, err := cache.New(client, cache.Options[int64, user]{Name: "users", TTL: time.Hour})
	if err != nil {
		panic(err)
	}
	defer func() { _ = users.Close() }()
	load := func(_ context.Context, ids []int64) (map[int64]user, error) {
		slices.Sort(ids)
		fmt.Println("SELECT … WHERE id IN", ids)
		all := map[int64]user{}
		for _, id := range ids {
			all[id] = user{fmt.Sprint("user ", id)}
		}
		return all, nil
	}
	for _, ids := range [][]int64{{1, 2}, {1, 2, 3, 4}} {
		found, err := users.GetMany(ctx, ids, load)
		fmt.Println(len(found), err)
	}
	// Output:
	// SELECT … WHERE id IN [1 2]
	// 2 <nil>
	// SELECT … WHERE id IN [3 4]
	// 4 <nil>
}

// ExampleCache_InvalidateTag invalidates the members of a group.
func ExampleCache_InvalidateTag() {
	ctx, client := context.Background(), exampleserver.Connect()
	defer func() { _ = client.Close() }()
	users, err := cache.New(client, cache.Options[string, user]{
		Name: "users", TTL: time.Hour,
		Tags: func(_ string, u user) []string { return []string{"name " + u.Name[:1]} },
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = users.Close() }()
	load := func(_ context.Context, id string) (user, bool, error) {
		fmt.Println("the database is asked for", id)
		return user{id}, true, nil
	}
	get := func() {
		for _, id := range []string{"Ann", "Amy", "Bob"} {
			if _, _, err := users.Get(ctx, id, load); err != nil {
				panic(err)
			}
		}
	}
	get()
	if err := users.InvalidateTag(ctx, "name A"); err != nil {
		panic(err)
	}
	get()
	// Output:
	// the database is asked for Ann
	// the database is asked for Amy
	// the database is asked for Bob
	// the database is asked for Ann
	// the database is asked for Amy
}
