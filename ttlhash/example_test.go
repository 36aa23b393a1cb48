package ttlhash_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/ttlhash"
)

func Example() {
	ctx, client := context.Background(), connect()

	sessions, err := ttlhash.New(client, ttlhash.Options{})
	if err != nil {
		panic(err)
	}
	if err := sessions.Set(ctx, "sessions", "ann", "token-1", 30*time.Minute); err != nil {
		panic(err)
	}
	token, ok, err := sessions.Get(ctx, "sessions", "ann")
	if err != nil {
		panic(err)
	}
	fmt.Println(token, ok)
	_, ok, err = sessions.Get(ctx, "sessions", "bob")
	if err != nil {
		panic(err)
	}
	fmt.Println("bob is there:", ok)
	// Output:
	// token-1 true
	// bob is there: false
}

// A session that is used stays; one that is not goes by itself.
func ExampleHashes_Touch() {
	ctx, client := context.Background(), connect()

	sessions, err := ttlhash.New(client, ttlhash.Options{})
	if err != nil {
		panic(err)
	}
	if err := sessions.Set(ctx, "sessions", "ann", "token-1", time.Minute); err != nil {
		panic(err)
	}
	token, ok, err := sessions.Touch(ctx, "sessions", "ann", 30*time.Minute)
	if err != nil {
		panic(err)
	}
	ttl, _, err := sessions.TTL(ctx, "sessions", "ann")
	if err != nil {
		panic(err)
	}
	fmt.Println(token, ok, ttl > 29*time.Minute)
	// Output: token-1 true true
}

// A code that was sent by mail is good once, for a while, and only the first counts.
func ExampleHashes_SetIfAbsent() {
	ctx, client := context.Background(), connect()

	codes, err := ttlhash.New(client, ttlhash.Options{})
	if err != nil {
		panic(err)
	}
	for _, code := range []string{"314159", "271828"} {
		sent, err := codes.SetIfAbsent(ctx, "codes", ttlhash.Item{Field: "ann@example.com", Value: code, TTL: 10 * time.Minute})
		if err != nil {
			panic(err)
		}
		fmt.Println("sent:", sent)
	}
	for range 2 {
		code, ok, err := codes.Take(ctx, "codes", "ann@example.com")
		if err != nil {
			panic(err)
		}
		fmt.Printf("%q %v\n", code, ok)
	}
	// Output:
	// sent: true
	// sent: false
	// "314159" true
	// "" false
}

func ExampleHashes_All() {
	ctx, client := context.Background(), connect()

	carts, err := ttlhash.New(client, ttlhash.Options{})
	if err != nil {
		panic(err)
	}
	err = carts.SetMany(ctx, "cart:7", []ttlhash.Item{
		{Field: "sku:1", Value: "2", TTL: time.Hour},
		{Field: "sku:2", Value: "1", TTL: time.Hour},
		{Field: "voucher", Value: "SPRING", TTL: ttlhash.Never},
	})
	if err != nil {
		panic(err)
	}
	for item, err := range carts.All(ctx, "cart:7", "*") {
		if err != nil {
			panic(err)
		}
		fmt.Println(item.Field, item.Value, item.TTL == ttlhash.Never)
	}
	// Unordered output:
	// sku:1 2 false
	// sku:2 1 false
	// voucher SPRING true
}

// A program that wants to know of expired fields listens; here until the first event.
func ExampleHashes_Expired() {
	ctx, client := context.Background(), connect()

	presence, err := ttlhash.New(client, ttlhash.Options{Events: true})
	if err != nil {
		panic(err)
	}
	if err := presence.Set(ctx, "online", "ann", "phone", 20*time.Millisecond); err != nil {
		panic(err)
	}
	last := "0" // or the ID of the last event that was seen
	for event, err := range presence.Expired(ctx, "online", last) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event.Field, "has left, from a", event.Value)
		break
	}
	// Output: ann has left, from a phone
}

// After a server was replaced with one that expires fields, each hash is left to it. An
// error, or the end of ctx, loses nothing: it goes on where it was.
func ExampleHashes_Migrate() {
	ctx, client := context.Background(), connect()

	before, err := ttlhash.New(client, ttlhash.Options{Emulate: true})
	if err != nil {
		panic(err)
	}
	for i := range 1000 {
		if err := before.Set(ctx, "sessions", fmt.Sprint("user:", i), "token", time.Hour); err != nil {
			panic(err)
		}
	}

	sessions, err := ttlhash.New(client, ttlhash.Options{})
	if err != nil {
		panic(err)
	}
	for name, err := range sessions.List(ctx, "*") {
		if err != nil {
			panic(err)
		}
		moved, err := sessions.Migrate(ctx, name)
		if err != nil {
			panic(err)
		}
		fmt.Println(name, moved)
	}
	// Output: sessions 1000
}
