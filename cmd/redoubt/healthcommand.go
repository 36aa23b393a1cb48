package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newHealth asks another process on this machine: a container of this binary has no other program to do it.
func newHealth() *cobra.Command {
	var address string
	var onlyLive, asJSON bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a redoubt serve on this machine whether it is healthy",
		Long: `Ask "redoubt serve" by its --http address whether its back end answers and takes writes.
It prints the answer of /readyz. With --live it asks /livez, which does not ask the back
end: use it for health checks that restart the process, as containers have them.

Exit codes: 0 healthy; 1 not healthy; 64 wrong usage; 69 nothing answers at the address
within two seconds.`,
		Example: "  redoubt health\n  redoubt health --live\n  redoubt health --http :9090 --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ok, text, err := askHealth(cmd.Context(), address, probePath(onlyLive))
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), map[string]any{"healthy": ok, "says": text}); err != nil || ok {
					return err
				}
				return fail(exitFault, nil)
			}
			if !ok {
				return failf(exitFault, "not healthy: %s", text)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:8080", "`address` that the server was given as --http")
	cmd.Flags().BoolVar(&onlyLive, "live", false, "ask only whether the process works, not whether its back end does")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(cmd.Flags(), "live", "json")
	return cmd
}

func probePath(onlyLive bool) string { //nolint:revive // the parameter is a flag
	if onlyLive {
		return "/livez"
	}
	return "/readyz"
}

// askHealth returns whether the server at an --http address is healthy, and what it says at a path.
func askHealth(ctx context.Context, address, path string) (healthy bool, text string, err error) {
	if err := listenAddress("http", address); err != nil {
		return false, "", fail(exitUsage, err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, "", usagef("http is %q; want host:port", address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() { // it listens on every address
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	address = net.JoinHostPort(host, port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return false, "", usagef("http is %q; want host:port", address)
	}
	reply, err := (&http.Transport{}).RoundTrip(request) // without a proxy of the environment
	if err != nil {
		return false, "", failf(exitUnavailable, "no server answers at http://%s%s: is `redoubt serve --http %s` running? (%w)", address, path, address, err)
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 64<<10))
	text = strings.TrimSpace(string(body))
	if reply.StatusCode != http.StatusOK && reply.StatusCode != http.StatusServiceUnavailable {
		err = errors.Join(err, fmt.Errorf("it answers %s", reply.Status))
	}
	if err != nil {
		return false, "", failf(exitUnavailable, "http://%s%s is not the address of a redoubt serve: %w", address, path, err)
	}
	return reply.StatusCode == http.StatusOK, text, nil
}
