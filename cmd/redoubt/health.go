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

// health returns an error if the back end does not answer a PING or refuses writes.
func health(ctx context.Context, back *backend) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := back.client.Do(ctx, redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}).Err; err != nil {
		if refusesWrites(err) { // Redis refuses PING in that state, too
			return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
		}
		return fmt.Errorf("back end %s does not answer: %w", back.name, err)
	}
	if back.saveErr != nil {
		if err := back.saveErr(); err != nil {
			return fmt.Errorf("writes are refused because they can't be saved: %w", err)
		}
	}
	// Deleting a missing key changes nothing, and the server refuses it when it refuses writes. Other
	// errors, like a user without DEL, say nothing about health.
	err := back.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{probeKey}, Flags: redoubt.Idempotent}).Err
	if _, replied := errors.AsType[redoubt.ServerError](err); err != nil && (!replied || refusesWrites(err)) {
		return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
	}
	return nil
}

// refusesWrites reports whether a server answers every write with this error.
func refusesWrites(err error) bool {
	reply, _ := errors.AsType[redoubt.ServerError](err)
	code, _, _ := strings.Cut(string(reply), " ")
	return code == "MISCONF" || code == "READONLY" || code == "NOREPLICAS"
}

// probeKey never exists: Redoubt has no key with an empty name.
const probeKey = "redoubt:{}:healthz"
