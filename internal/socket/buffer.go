package socket

// MakeRoom prepares a read buffer for the next read, behind buf[from:to], which is unread. When no room is
// left there, it moves the unread bytes to the front. It reports full, and moves nothing, when these fill
// more than half of buf: the caller then needs a larger buffer. So each byte is moved a bounded number of
// times.
func MakeRoom(buf []byte, from, to int) (newFrom, newTo int, full bool) {
	switch {
	case from == to:
		return 0, 0, false
	case to < len(buf):
		return from, to, false
	case to-from > len(buf)/2:
		return from, to, true
	}
	return 0, copy(buf, buf[from:to]), false
}

// Grow returns a buffer of size bytes that begins with unread.
func Grow(unread []byte, size int) []byte {
	grown := make([]byte, size)
	copy(grown, unread)
	return grown
}
