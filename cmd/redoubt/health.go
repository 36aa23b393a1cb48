package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
)

// healthTimeout is how long /healthz waits for the back end.
const healthTimeout = time.Second

// health asks the back end for a PING, and whether it takes writes.
func health(ctx context.Context, back *backend) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := back.client.Do(ctx, redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}).Err; err != nil {
		if refusesWrites(err) { // Redis then refuses PING too
			return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
		}
		return fmt.Errorf("back end %s does not answer: %w", back.name, err)
	}
	if back.saveErr != nil {
		if err := back.saveErr(); err != nil {
			return fmt.Errorf("writes are refused, because they can't be saved: %w", err)
		}
	}
	// To delete what is not there changes nothing, and is refused as other writes
	// are. What else stands in its way, like a user without DEL, is not about health.
	err := back.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{probeKey}, Flags: redoubt.Idempotent}).Err
	if _, replied := errors.AsType[redoubt.ServerError](err); err != nil && (!replied || refusesWrites(err)) {
		return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
	}
	return nil
}

// refusesWrites says whether a server's error is one that all writes get.
func refusesWrites(err error) bool {
	reply, _ := errors.AsType[redoubt.ServerError](err)
	code, _, _ := strings.Cut(string(reply), " ")
	return code == "MISCONF" || code == "READONLY" || code == "NOREPLICAS"
}

// probeKey is never there: no key of Redoubt's has an empty name.
const probeKey = "redoubt:{}:healthz"
