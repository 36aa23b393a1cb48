// Package fence is what package fence and the command FENCE.DO say to the server: the key, the
// scripts, the commands, and the readers of their replies.
package fence
