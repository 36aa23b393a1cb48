// Package ratelimit has the wire format that package ratelimit and the commands LIMIT.* and
// CL.THROTTLE share: the keys, the scripts, the commands that call them, the readers of their
// replies, and the arithmetic of the limits that both need.
package ratelimit
