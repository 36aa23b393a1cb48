// Package randid makes random ids.
package randid

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
)

// most is the length of the longest id, in random bytes.
const most = 32

// Bytes returns n random bytes, at most 32.
func Bytes(n int) string {
	var b [most]byte
	_, _ = rand.Read(b[:n]) // never fails: crypto/rand ends the process instead
	return string(b[:n])
}

// Hex returns n random bytes as 2n hexadecimal digits.
func Hex(n int) string {
	var b [most]byte
	_, _ = rand.Read(b[:n]) // never fails, as above
	return hex.EncodeToString(b[:n])
}

// Base64 returns n random bytes as letters, digits, - and _. n is a multiple of 3.
func Base64(n int) string {
	var b [most]byte
	_, _ = rand.Read(b[:n]) // never fails, as above
	return base64.RawURLEncoding.EncodeToString(b[:n])
}
