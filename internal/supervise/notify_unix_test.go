//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

func notify(c chan<- os.Signal) { signal.Notify(c, Signals()...) }

// receiver is a command that records every signal at once. A shell would merge two signals in a row. SIGUSR1
// ends it.
func receiver(file string) int {
	c := make(chan os.Signal, 8)
	notify(c)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	_, _ = f.WriteString("ready\n")
	for sig := range c {
		_, _ = f.WriteString(sig.String() + "\n")
		if sig == syscall.SIGUSR1 {
			break
		}
	}
	return 7
}
