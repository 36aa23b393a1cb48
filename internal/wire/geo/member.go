package geo

import (
	"errors"
	"fmt"
)

// MaxMember is the longest member, in bytes.
const MaxMember = 512

// ErrInvalidMember is matched by what [CheckMember] returns.
var ErrInvalidMember = errors.New("geo: invalid member")

// CheckMember returns nil for a valid name of a member. Otherwise its error matches [ErrInvalidMember].
func CheckMember(m string) error {
	if m == "" || len(m) > MaxMember {
		return fmt.Errorf("%w: it has %d bytes; want 1 to %d", ErrInvalidMember, len(m), MaxMember)
	}
	return nil
}
