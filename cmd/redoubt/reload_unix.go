//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload has SIGHUP sent to c.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
