package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/transfer"
)

// sampledKeys is how many keys of both sides are compared.
const sampledKeys = 1000

// A followedState is the JSON form of import --follow and --switch.
type followedState struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Keys      int64  `json:"keys"`
	Behind    int64  `json:"behind_bytes"`
	Compared  int64  `json:"compared_keys"`
	Changed   int64  `json:"changed_keys"` // of these, too often to compare them
	Switched  bool   `json:"switched"`
	NoWrites  int64  `json:"no_writes_ms"` // how long neither side took writes
	MinBefore string `json:"min_replicas_before"`
}

// runFollow makes the backend a replica of source, or with --switch its successor.
func (f *moveFlags) runFollow(source string, given bool, stdout, stderr io.Writer) error { //nolint:revive // as runImport
	name, _, _ := strings.Cut(source, "://")
	if name != "redis" && name != "rediss" {
		return usagef("SOURCE is %s; --follow and --switch want a server that the target reaches by itself: redis://host:port or rediss://host:port", shown(source))
	}
	if _, embedded := embeddedPath(f.backend); embedded || f.dir != "" {
		return usagef("a directory can't follow a server: start redoubt serve on it, and name that with --backend")
	}
	if f.skip {
		return usagef("--skip-unsupported is not for --follow: a replica has all keys, or none")
	}
	ctx, code, stop := untilInterrupted()
	defer stop()
	password, err := (&secret{file: f.otherPassword}).read()
	if err != nil {
		return err
	}
	source = withPassword(source, password)
	at, err := proxy.ParseURL(source)
	if err != nil {
		return usagef("SOURCE: %w", err)
	}
	if at.DB != 0 {
		return usagef("SOURCE has a database; a replica has all of them: leave it out")
	}
	from, err := openRemote(ctx, "source", source)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer from.Close()
	to, err := f.openBackend(ctx, stderr, given)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() { _ = to.close() }() // the target has its own connection
	u, err := url.Parse(source)
	if err != nil {
		return usagef("SOURCE: %w", err)
	}
	secret, _ := u.User.Password()
	link, err := transfer.NewLink(from, to.Server, at.Addr, u.User.Username(), secret, name == "rediss", func(ctx context.Context, isSource bool) (*transfer.Server, error) {
		if isSource {
			return openRemote(ctx, "source", source)
		}
		to, err := f.openBackend(ctx, stderr, given)
		if err != nil {
			return nil, err
		}
		return to.Server, nil
	})
	if err != nil {
		return usagef("SOURCE: %w", err)
	}
	if f.cutOver {
		err = f.switchOver(ctx, link, from, to.Server, stdout, stderr)
	} else {
		err = f.follow(ctx, link, from, to.Server, stdout, stderr)
	}
	if n := code(); n != 0 && err != nil {
		return failf(n, "interrupted: %w. If %s follows %s, it goes on; REPLICAOF NO ONE there ends that", err, to.Name(), from.Name())
	}
	return err
}

// follow makes the target a replica, waits until it has caught up, and compares both sides.
func (f *moveFlags) follow(ctx context.Context, link *transfer.Link, from, to *transfer.Server, stdout, stderr io.Writer) error {
	began := time.Now()
	already, err := link.Following(ctx)
	if err == nil && !already {
		err = link.Begin(ctx, f.replace)
	}
	if full, ok := errors.AsType[*transfer.NotEmptyError](err); ok {
		return failf(exitExists, "%w; nothing was changed. --replace deletes them", full)
	} else if err != nil {
		return failf(exitFault, "%w; no key was changed", err)
	}
	p := newProgress(stderr, f.quiet, f.verb)
	state, err := link.Await(ctx, func(s transfer.LinkState) { p.update(transfer.Progress{Done: s.Keys, Total: s.Total}) })
	p.done()
	if err != nil {
		return failf(exitFault, "%w", err)
	}
	compared, err := link.Compare(ctx, sampledKeys)
	if err != nil {
		return failf(exitFault, "the comparison failed: %w", err)
	}
	if err := differs(compared); err != nil {
		return err
	}
	return f.tellFollow(stdout, followedState{From: from.Name(), To: to.Name(), Keys: state.Keys, Behind: state.Behind, Compared: compared.Keys, Changed: compared.Changed},
		fmt.Sprintf("%s follows %s: %s after %s, %s behind; %s compared: %s\nclients may read there; `redoubt import … --switch` makes it take writes, and %s refuse them",
			to.Name(), from.Name(), keys(state.Keys), rounded(time.Since(began).Milliseconds()), byteSize(state.Behind), keys(compared.Keys), verdict(compared), from.Name()))
}

// switchOver makes the target the master.
func (f *moveFlags) switchOver(ctx context.Context, link *transfer.Link, from, to *transfer.Server, stdout, stderr io.Writer) error {
	if already, err := link.Following(ctx); err != nil || !already {
		if err == nil {
			err = fmt.Errorf("%s does not follow %s: run this with --follow first", to.Name(), from.Name())
		}
		return failf(exitFault, "%w; nothing was changed", err)
	}
	p := newProgress(stderr, f.quiet, "switching")
	state, err := link.Await(ctx, func(s transfer.LinkState) { p.update(transfer.Progress{Done: s.Keys, Total: s.Total}) })
	var compared transfer.Compared
	var pause time.Duration
	if err == nil {
		compared, pause, err = link.Switch(ctx, sampledKeys)
	}
	p.done()
	if err == nil {
		err = differs(compared)
	}
	if err != nil {
		return failf(exitFault, "nothing was switched: %w", err)
	}
	return f.tellFollow(stdout, followedState{From: from.Name(), To: to.Name(), Keys: state.Keys, Compared: compared.Keys, Changed: compared.Changed, Switched: true, NoWrites: pause.Milliseconds(), MinBefore: link.Before()},
		fmt.Sprintf("%s takes writes now; nobody could write for %s; %s compared: %s\n%s refuses writes (NOREPLICAS): let clients connect to %s. CONFIG SET min-replicas-to-write %s there allows writes again",
			to.Name(), rounded(pause.Milliseconds()), keys(compared.Keys), verdict(compared), from.Name(), to.Name(), link.Before()))
}

func verdict(c transfer.Compared) string {
	if c.Changed == 0 {
		return "no difference"
	}
	return fmt.Sprintf("no difference; %d of them changed too fast to compare", c.Changed)
}

func differs(c transfer.Compared) error {
	if len(c.Differs) == 0 {
		return nil
	}
	return failf(exitData, "%d of %s differ on the two sides, like %s", len(c.Differs), keys(c.Keys), c.Differs[0])
}

func (f *moveFlags) tellFollow(stdout io.Writer, state followedState, text string) error {
	if f.quiet {
		return nil
	}
	if f.asJSON {
		return printJSON(stdout, state)
	}
	_, err := fmt.Fprintln(stdout, text)
	return err
}
