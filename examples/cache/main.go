// Cache puts a cache in front of SQLite, and counts the queries that reach the database.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	_ "github.com/redoubt-go/redoubt/engine"  // opens embedded:
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the cache; $REDOUBT_URL sets the default")
	readers := flag.Int("readers", 200, "how many `readers` ask at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *readers); err != nil {
		log.Fatal(err)
	}
}

type product struct {
	Name  string
	Cents int64
	Offer bool // its price changes often
}

const (
	slow       = 20 * time.Millisecond  // what a query takes on a busy database
	freshOffer = 100 * time.Millisecond // how long the price of an offer is fresh
)

func run(ctx context.Context, url string, readers int) error {
	dir, err := os.MkdirTemp("", "shop-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the file goes too
	if _, err := db.ExecContext(ctx, `CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, cents INTEGER, offer BOOLEAN);
		INSERT INTO products VALUES (1, 'tea', 450, FALSE), (2, 'coffee', 690, TRUE)`); err != nil {
		return err
	}
	// Each run has a prefix of its own, so that its cache is empty.
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: fmt.Sprintf("example-cache-%x", time.Now().UnixNano())})
	if err != nil {
		return err
	}
	defer client.Close()

	s := shop{db: db, readers: readers}
	// Each process of a service has one cache. Two of them stand for two processes.
	for i := range s.caches {
		if s.caches[i], err = newCache(client); err != nil {
			return err
		}
		defer func() { _ = s.caches[i].Close() }() // it waits for loads; nothing is left to lose
	}
	return s.day(ctx)
}

func newCache(client *redoubt.Client) (*cache.Cache[int64, product], error) {
	return cache.New(client, cache.Options[int64, product]{
		Name: "products",
		TTL:  time.Minute,
		Lifetime: func(_ int64, p product) time.Duration {
			if p.Offer {
				return freshOffer
			}
			return time.Minute
		},
		StaleFor: time.Minute, // readers get the old price while one of them asks for the new one
	})
}

type shop struct {
	db      *sql.DB
	readers int
	caches  [2]*cache.Cache[int64, product]
	queries atomic.Int64
}

// load asks the database. found = false is remembered as well, for a shorter time.
func (s *shop) load(ctx context.Context, id int64) (p product, found bool, err error) {
	s.queries.Add(1)
	time.Sleep(slow)
	err = s.db.QueryRowContext(ctx, "SELECT name, cents, offer FROM products WHERE id = ?", id).Scan(&p.Name, &p.Cents, &p.Offer)
	if errors.Is(err, sql.ErrNoRows) {
		return product{}, false, nil
	}
	return p, err == nil, err
}

// setPrice writes to the database first and invalidates the entry afterwards. The other order lets a
// reader put the old price back in between.
func (s *shop) setPrice(ctx context.Context, id, cents int64) error {
	if _, err := s.db.ExecContext(ctx, "UPDATE products SET cents = ? WHERE id = ?", cents, id); err != nil {
		return err
	}
	return s.caches[0].Invalidate(ctx, id) // in both processes
}

// read lets all readers, half of them in each process, ask for a product at the same time.
func (s *shop) read(ctx context.Context, what string, id int64) error {
	before := s.queries.Load()
	var wg sync.WaitGroup
	errs := make(chan error, s.readers)
	for i := range s.readers {
		wg.Go(func() {
			_, _, err := s.caches[i%2].Get(ctx, id, s.load)
			errs <- err
		})
	}
	wg.Wait()
	for range s.readers {
		if err := <-errs; err != nil {
			return err
		}
	}
	p, found, err := s.caches[1].Get(ctx, id, s.load)
	if err != nil {
		return err
	}
	answer := "there is none"
	if found {
		answer = fmt.Sprintf("%s costs %d.%02d", p.Name, p.Cents/100, p.Cents%100)
	}
	fmt.Printf("%-30s readers %d, queries %d: %s\n", what, s.readers, s.queries.Load()-before, answer)
	return nil
}

func (s *shop) day(ctx context.Context) error {
	if err := s.read(ctx, "the cache is empty:", 1); err != nil {
		return err
	}
	if err := s.read(ctx, "the cache has it:", 1); err != nil {
		return err
	}
	if err := s.read(ctx, "there is no product 9:", 9); err != nil {
		return err
	}
	if err := s.setPrice(ctx, 1, 495); err != nil {
		return err
	}
	if err := s.read(ctx, "the price has changed:", 1); err != nil {
		return err
	}
	if err := s.read(ctx, "an offer:", 2); err != nil {
		return err
	}
	time.Sleep(2 * freshOffer)
	if err := s.read(ctx, "the offer is no longer fresh:", 2); err != nil {
		return err
	}
	for i, c := range s.caches {
		n := c.Stats()
		fmt.Printf("process %d: %d hits, %d stale, %d waited for a load of another, %d loads\n", i+1, n.Hits+n.Negatives, n.Stale, n.Waits, n.Loads)
	}
	return nil
}
