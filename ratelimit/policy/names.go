package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

const (
	maxPolicyName = 64
	maxKey        = 256 // of a name's redoubt.MaxName
)

// name is the name that the limiter gets. Names of policies have no colon.
func (p Policy[R]) name(r R) string {
	if p.Key == nil {
		return p.Name
	}
	key := p.Key(r)
	if len(key) > maxKey {
		key = Hash(key)
	}
	return p.Name + ":" + key
}

// Hash returns a key for a secret or a long text: half of its SHA-256, so that the
// server's keys don't show an API key.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// DefaultIPv6Bits is the size of the network that one subscriber usually gets, and from
// which it may take any address.
const DefaultIPv6Bits = 64

// AddrKey returns the key of an address: an IPv4 address, "192.0.2.7", or the network of an
// IPv6 address with that many bits, "2001:db8::/64". An IPv4-mapped IPv6 address counts as
// the IPv4 address.
func AddrKey(addr netip.Addr, ipv6Bits int) string {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() || ipv6Bits == addr.BitLen() {
		return addr.String()
	}
	network, err := addr.Prefix(ipv6Bits)
	if err != nil {
		return addr.String()
	}
	return network.String()
}

// validName reports whether name fits into a header field, and begins names that are valid
// on the server and belong to no other policy.
func validName(name string) bool {
	return name != "" && len(name) <= maxPolicyName && name[0] != '}' &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == ':' })
}
