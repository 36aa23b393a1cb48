package scan

import "errors"

var (
	// ErrInvalidToken is matched by the error for a token that can't be gone on from: it is
	// cut off or altered, or is of another query or of other servers.
	ErrInvalidToken = errors.New("scan: invalid token")

	// ErrUnsettled is matched by the error of a scan that can't come to an end, since
	// servers are restarted again and again, or slots of a cluster belong to nobody,
	// or are on their way to a node that owns none yet. What was given counts: go on
	// with the token when the cluster is well.
	ErrUnsettled = errors.New("scan: the servers don't settle")

	// ErrNoLFU is matched by the error for a report by [Heat] of a server that counts
	// no accesses. To go on with the token is no use.
	ErrNoLFU = errors.New("scan: the server has no LFU policy and counts no accesses")

	// ErrInvalidOption is matched by the error for an option, a query or an argument
	// that is out of range.
	ErrInvalidOption = errors.New("scan: invalid option")
)
