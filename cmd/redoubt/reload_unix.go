//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyHandOver has SIGUSR2 sent to c.
func notifyHandOver(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR2) }

// notifyReload has SIGHUP sent to c.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
