package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// Header returns a Key by the first value of the header field called name. The server gets
// a hash, so that its keys don't show API keys. Requests without the field share one
// limit.
func Header(name string) func(*http.Request) string {
	return func(r *http.Request) string {
		if v := r.Header.Get(name); v != "" {
			return policy.Hash(v)
		}
		return ""
	}
}

// IPOptions configure [ClientIP].
type IPOptions struct {
	// Trusted are the networks of all proxies in front of the server. Defaults to none:
	// the peer is the client.
	Trusted []netip.Prefix

	// Field is the header field that all trusted proxies append their peer to: Forwarded
	// (RFC 7239), or a list of addresses like X-Forwarded-For. Other fields are ignored,
	// because a proxy passes on fields that it doesn't know. Defaults to X-Forwarded-For.
	Field string

	// IPv6Bits is how many bits of an IPv6 address count, 1 to 128. Defaults to 64, the
	// network of one subscriber.
	IPv6Bits int
}

// ClientIP returns a Key by the address of the client. A proxy that reports something
// other than an address counts as the client itself. Peers without an address, as on a
// unix socket, share one limit. The error joins all that is wrong with the options.
func ClientIP(opts IPOptions) (func(*http.Request) string, error) {
	var errs []error
	trusted := make([]netip.Prefix, 0, len(opts.Trusted))
	for _, p := range opts.Trusted {
		if !p.IsValid() {
			errs = append(errs, errors.New("ratelimit: a trusted prefix is the zero one; want those of netip.ParsePrefix"))
		}
		if p.IsValid() && p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("ratelimit: trusted prefix %v is of IPv4 in IPv6; want it as IPv4", p))
		}
		trusted = append(trusted, p)
	}
	if opts.Field == "" {
		opts.Field = "X-Forwarded-For"
	}
	if opts.IPv6Bits == 0 {
		opts.IPv6Bits = policy.DefaultIPv6Bits
	}
	if opts.IPv6Bits < 1 || opts.IPv6Bits > 128 {
		errs = append(errs, fmt.Errorf("ratelimit: IPv6Bits is %d; want 1 to 128", opts.IPv6Bits))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func(r *http.Request) string {
		client := clientAddr(r, trusted, opts.Field)
		if !client.IsValid() {
			return ""
		}
		return policy.AddrKey(client, opts.IPv6Bits)
	}, nil
}

// clientAddr follows the reported addresses from the peer to the left, as long as a trusted
// proxy reported them.
func clientAddr(r *http.Request, trusted []netip.Prefix, field string) netip.Addr {
	client, ok := parseAddr(r.RemoteAddr)
	if !ok || !within(trusted, client) {
		return client
	}
	for _, line := range slices.Backward(r.Header.Values(field)) {
		for rest, more := line, true; more; {
			var node string
			if rest, node, more = cutLast(rest); strings.EqualFold(field, "Forwarded") {
				node = forwardedFor(node)
			}
			addr, ok := parseAddr(strings.TrimSpace(node))
			if !ok {
				return client
			}
			if client = addr; !within(trusted, client) {
				return client
			}
		}
	}
	return client
}

// cutLast cuts the last element off a list. It reads from the right, so that a quote that a
// client opens can't reach into the part that a proxy has added.
func cutLast(list string) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !escaped(list[:i]):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether the character after before is escaped.
func escaped(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// parseAddr reads an address in any form in use: with a port, in brackets, or bare.
func parseAddr(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}

// forwardedFor returns the parameter "for" of an element of the field Forwarded,
// or "".
func forwardedFor(element string) (node string) {
	for element != "" {
		end, quoted := 0, false
		for ; end < len(element) && (quoted || element[end] != ';'); end++ {
			if element[end] == '"' && !escaped(element[:end]) {
				quoted = !quoted
			}
		}
		pair := element[:end]
		element = element[min(end+1, len(element)):]
		name, value, _ := strings.Cut(pair, "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			node = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return node
}
