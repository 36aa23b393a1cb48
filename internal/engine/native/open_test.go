package native_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/internal/engine/native" // for embedded: URLs
	"github.com/redoubt-go/redoubt/lock"
)

// A URL, from a setting perhaps, says where locks are: here in this process.
func Example_open() {
	ctx := context.Background()
	client, err := redoubt.Open(ctx, "embedded:", redoubt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }() // in memory: nothing to save
	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "orders:42", func(context.Context) error {
		fmt.Println("shipping order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: shipping order 42
}

// What a client of embedded:/path has written is there for the next one, and Close lets
// go of the directory.
func TestOpenDirectory(t *testing.T) {
	url := "embedded:" + t.TempDir()
	for i := range int64(3) {
		client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := client.Do(t.Context(), redoubt.Cmd{Name: "INCR", Keys: []string{"n"}}).Int(); err != nil || n != i+1 {
			t.Errorf("got %d, %v; want %d", n, err, i+1)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
