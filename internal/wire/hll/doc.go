// Package hll is what package hll says to the server by scripts.
package hll
