// Package fence has the wire format that package fence and the command
// FENCE.DO share: the key, the scripts, the commands, and the readers of
// their replies.
package fence
