package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// live answers /livez: a process that answers needs no restart. It asks nothing else, so that a back end that is down
// doesn't restart every server in front of it.
func live() http.Handler {
	return probe("livez", func() []healthCheck {
		return []healthCheck{{"process", func(context.Context) (string, error) { return "", nil }}}
	})
}

var errDraining = errors.New("draining: this server is shutting down")

// ready answers /readyz: whether clients should be sent here.
func ready(checks func() []healthCheck, draining *atomic.Bool) http.Handler {
	shutdown := healthCheck{"shutdown", func(context.Context) (string, error) {
		if draining.Load() {
			return "", errDraining
		}
		return "", nil
	}}
	return probe("readyz", func() []healthCheck { return append(checks(), shutdown) })
}

// A result is what a check has found.
type result struct {
	note     string
	err      error
	excluded bool
}

// probe makes all checks at once. It answers 200, or 503 if a check has failed, in the format of kube-apiserver: the
// reasons and the notes, or with verbose in the query a line for each check. exclude in the query leaves a check out.
func probe(name string, checks func() []healthCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, all := r.URL.Query(), checks()
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		results := make([]result, len(all))
		var wg sync.WaitGroup
		for i, c := range all {
			if results[i].excluded = slices.Contains(query["exclude"], c.name); !results[i].excluded {
				wg.Go(func() { results[i].note, results[i].err = c.ask(ctx) })
			}
		}
		wg.Wait()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff") // it repeats names of the query
		w.Header().Set("Cache-Control", "no-store")
		failed := slices.ContainsFunc(results, func(r result) bool { return r.err != nil })
		if failed {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		var lines []string
		switch {
		case query.Has("verbose"):
			lines = everyCheck(name, all, results, failed)
		case failed:
			lines = reasons(results)
		default:
			lines = append([]string{"ok"}, notes(results)...)
		}
		for _, line := range append(lines, unknownChecks(query, all)...) {
			_, _ = fmt.Fprintln(w, line)
		}
	})
}

func everyCheck(name string, all []healthCheck, results []result, failed bool) (lines []string) { //nolint:revive // the parameter is the result
	for i, c := range all {
		switch r := results[i]; {
		case r.excluded:
			lines = append(lines, fmt.Sprintf("[+]%s excluded: ok", c.name))
		case r.err != nil:
			lines = append(lines, fmt.Sprintf("[-]%s failed: %v", c.name, r.err))
		case r.note != "":
			lines = append(lines, fmt.Sprintf("[+]%s ok: %s", c.name, strings.ReplaceAll(r.note, "\n", "; ")))
		default:
			lines = append(lines, fmt.Sprintf("[+]%s ok", c.name))
		}
	}
	if failed {
		return append(lines, name+" check failed")
	}
	return append(lines, name+" check passed")
}

// reasons returns why checks have failed. Checks that depend on the same answer have one reason.
func reasons(results []result) (lines []string) {
	for _, r := range results {
		if r.err != nil && !slices.Contains(lines, r.err.Error()) {
			lines = append(lines, r.err.Error())
		}
	}
	return lines
}

func notes(results []result) (lines []string) {
	for _, r := range results {
		if r.note != "" && !slices.Contains(lines, r.note) {
			lines = append(lines, r.note)
		}
	}
	return lines
}

// unknownChecks returns an error for each name in exclude that no check has.
func unknownChecks(query url.Values, all []healthCheck) (lines []string) {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	for _, name := range query["exclude"] {
		if !slices.Contains(names, name) {
			lines = append(lines, fmt.Sprintf("exclude is %.100q; want one of %s", name, strings.Join(names, ", ")))
		}
	}
	return lines
}
