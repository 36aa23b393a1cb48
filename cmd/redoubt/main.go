// Redoubt serves locks, rate limits and queues to any Redis client, and runs commands under locks. See
// docs/cli.md.
package main

import (
	"os"
	_ "time/tzdata" // for LIMIT.QUOTA on machines without time zones

	"github.com/redoubt-go/redoubt/internal/supervise"
)

func main() {
	supervise.GuardMain() // returns unless this process is the guard of another
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
