//go:build !unix

package main

import "os"

// notifyHandOver does nothing: there is no SIGUSR2 here.
func notifyHandOver(chan<- os.Signal) {}

// notifyReload does nothing: there is no SIGHUP here.
func notifyReload(chan<- os.Signal) {}
