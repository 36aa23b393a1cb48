package conn

import (
	"strings"

	"github.com/redoubt-go/redoubt"
)

// These read the errors by which `redoubt serve` tells what became of a command when the back end failed. Package
// proxy makes the errors.

// ReplyLost reports whether the reply is lost: the command may have run.
func ReplyLost(se redoubt.ServerError) bool {
	return strings.HasPrefix(string(se), "ERR redoubt: ") && strings.HasSuffix(string(se), ": the command may have run") ||
		strings.HasPrefix(string(se), "ERR redoubt: outcome unknown: ")
}

// NotSent reports whether the command was not sent, though the next may be.
func NotSent(se redoubt.ServerError) bool {
	return strings.HasPrefix(string(se), "ERR redoubt: ") && strings.HasSuffix(string(se), ": the command was not sent")
}

// BackendDown reports whether the back end is known to be down.
func BackendDown(se redoubt.ServerError) bool {
	return strings.HasPrefix(string(se), "ERR redoubt: back end ") && strings.Contains(string(se), " is unreachable: ") ||
		strings.HasPrefix(string(se), "ERR redoubt: server ") && strings.Contains(string(se), "unavailable since ")
}
