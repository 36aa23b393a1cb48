// Package ratelimit limits rates on Redis, by the generic cell rate algorithm.
package ratelimit
