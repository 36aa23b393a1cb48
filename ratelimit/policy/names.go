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

// name is what the limiter is asked for. Names of policies have no colon.
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

// Hash returns a key for a secret, or for something long: half of its SHA-256,
// so that the keys of the server don't show an API key.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// DefaultIPv6Bits is the network that one subscriber is given as a rule, in
// which he may take any address.
const DefaultIPv6Bits = 64

// AddrKey returns the key of an address: "192.0.2.7", and of IPv6 its network of
// so many bits, "2001:db8::/64". An IPv4 address in IPv6 is that address.
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

// validName reports whether a field can tell name, and the names made of it are
// those of no other policy and no fault to the server.
func validName(name string) bool {
	return name != "" && len(name) <= maxPolicyName && name[0] != '}' &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == ':' })
}
