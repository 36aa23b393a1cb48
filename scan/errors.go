package scan

import "errors"

var (
	// ErrInvalidToken is matched by the error for a token that a scan can't resume with: it is cut off or
	// altered, or it is of another query or of other servers.
	ErrInvalidToken = errors.New("scan: invalid token")

	// ErrUnsettled is matched by the error of a scan that can't finish: servers are restarted again and
	// again, no node owns some slots, or slots are moving to a node that owns none yet. The items that
	// were yielded count. Resume with the token when the cluster is well.
	ErrUnsettled = errors.New("scan: the servers don't settle")

	// ErrNoLFU is matched by the error for a report by [Heat] of a server that counts no accesses.
	// Resuming with the token does not help.
	ErrNoLFU = errors.New("scan: the server has no LFU policy and counts no accesses")

	// ErrInvalidOption is matched by the error for an option, a query or an argument
	// that is out of range.
	ErrInvalidOption = errors.New("scan: invalid option")
)
