// Package ratelimit is what package ratelimit and the commands LIMIT.* and CL.THROTTLE say to the
// server: the keys, the scripts, the commands that call them, the readers of their replies, and the
// arithmetic of the limits that both need.
package ratelimit
