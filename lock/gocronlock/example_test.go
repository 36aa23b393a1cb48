package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/lock/gocronlock"
)

// The same job is due in two processes. The second is late, and the job has ended in the first one:
// it isn't run again.
func Example() {
	store, err := engine.Open(context.Background(), engine.Options{}) // or goredis.Open(ctx, "redis://…")
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()

	for range 2 {
		locker, err := gocronlock.New(client, gocronlock.Options{Hold: 10 * time.Second})
		if err != nil {
			panic(err)
		}
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			panic(err)
		}
		done := make(chan struct{})
		_, err = scheduler.NewJob(
			gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), // or gocron.CronJob("0 9 * * *", false)
			gocron.NewTask(func() { fmt.Println("the report is sent") }),
			gocron.WithName("report"),
			gocron.WithEventListeners(
				gocron.AfterJobRuns(func(uuid.UUID, string) { close(done) }),
				gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
					fmt.Println("another process has it:", errors.Is(err, lock.ErrBusy))
					close(done)
				}),
			),
		)
		if err != nil {
			panic(err)
		}
		scheduler.Start()
		<-done
		if err := scheduler.Shutdown(); err != nil {
			panic(err)
		}
	}
	// Output:
	// the report is sent
	// another process has it: true
}

// Two processes have the same jobs. The first to have one that is due leads, until it closes its
// Elector.
func ExampleElector() {
	ctx := context.Background()
	store, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()

	var electors []*gocronlock.Elector
	for _, host := range []string{"host-1", "host-2"} {
		elector, err := gocronlock.NewElector(client, gocronlock.ElectorOptions{Label: host})
		if err != nil {
			panic(err)
		}
		defer func() { _ = elector.Close() }()
		electors = append(electors, elector)

		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		if err != nil {
			panic(err)
		}
		defer func() { _ = scheduler.Shutdown() }()
		// scheduler.NewJob(…), scheduler.Start()
	}

	// The schedulers ask whenever a job is due.
	fmt.Println("host-1 leads:", electors[0].IsLeader(ctx) == nil)
	fmt.Println("host-2 leads:", electors[1].IsLeader(ctx) == nil)
	if err := electors[0].Close(); err != nil {
		panic(err)
	}
	fmt.Println("host-2 leads:", electors[1].IsLeader(ctx) == nil)
	// Output:
	// host-1 leads: true
	// host-2 leads: false
	// host-2 leads: true
}
