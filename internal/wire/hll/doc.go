// Package hll has the scripts of package hll and the commands that run them.
package hll
