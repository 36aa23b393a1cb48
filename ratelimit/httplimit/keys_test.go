package httplimit_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

func clientIP(t testing.TB, opts httplimit.IPOptions) func(*http.Request) string {
	t.Helper()
	key, err := httplimit.ClientIP(opts)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func prefixes(list string) (all []netip.Prefix) {
	for p := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func request(remote, field string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{http.CanonicalHeaderKey(field): lines}}
}

const proxies = "10.0.0.0/8 2001:db8:ffff::/48"

// Promise: A client can't forge its address: only the fields of trusted
// proxies count.
func TestClientIP(t *testing.T) {
	for _, c := range []struct{ remote, reported, xff, forwarded string }{
		// The peer is no proxy: whatever it reports is made up.
		{"192.0.2.7:1", "", "192.0.2.7", "192.0.2.7"},
		{"192.0.2.7:1", "for=198.51.100.1", "192.0.2.7", "192.0.2.7"},
		{"[2001:db8:1:2:3::4]:1", "", "2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.7]:1", "", "192.0.2.7", "192.0.2.7"},
		{"[fe80::1%eth0]:1", "", "fe80::/64", "fe80::/64"},
		{"@", "for=198.51.100.1", "", ""},
		// It is: the rightmost that is not one of ours counts.
		{"10.0.0.1:1", "", "10.0.0.1", "10.0.0.1"},
		{"10.0.0.1:1", "for=198.51.100.1", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "for=1.1.1.1, for=198.51.100.1", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "for=1.1.1.1,for=198.51.100.1 , for=10.1.2.3", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "for=10.9.9.9, for=10.1.2.3", "10.9.9.9", "10.9.9.9"},
		{"[2001:db8:ffff::1]:1", `for="[2001:db8:5:6:7::8]:4711"`, "2001:db8:5:6::/64", "2001:db8:5:6::/64"},
		{"10.0.0.1:1", `for="198.51.100.1:80"`, "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", `for="[::ffff:198.51.100.1]"`, "198.51.100.1", "198.51.100.1"},
		// Something that is no address stops the way to the left.
		{"10.0.0.1:1", "for=1.1.1.1, for=unknown", "10.0.0.1", "10.0.0.1"},
		{"10.0.0.1:1", "for=1.1.1.1, for=_hidden, for=10.2.2.2", "10.2.2.2", "10.2.2.2"},
		{"10.0.0.1:1", "for=1.1.1.1,", "10.0.0.1", "10.0.0.1"},
	} {
		opts := httplimit.IPOptions{Trusted: prefixes(proxies)}
		xff := strings.NewReplacer("for=", "", `"`, "").Replace(c.reported)
		if got := clientIP(t, opts)(request(c.remote, "X-Forwarded-For", xff)); got != c.xff {
			t.Errorf("%s with X-Forwarded-For %q: %q, want %q", c.remote, xff, got, c.xff)
		}
		opts.Field = "forwarded"
		if got := clientIP(t, opts)(request(c.remote, "Forwarded", c.reported)); got != c.forwarded {
			t.Errorf("%s with Forwarded %q: %q, want %q", c.remote, c.reported, got, c.forwarded)
		}
	}
	if got := clientIP(t, httplimit.IPOptions{IPv6Bits: 128})(request("[2001:db8::7]:1", "X")); got != "2001:db8::7" {
		t.Errorf("of 128 bits: %q", got)
	}
	if got := clientIP(t, httplimit.IPOptions{IPv6Bits: 56})(request("[2001:db8:0:abcd::7]:1", "X")); got != "2001:db8:0:ab00::/56" {
		t.Errorf("of 56 bits: %q", got)
	}
	forwarded := httplimit.IPOptions{Trusted: prefixes(proxies), Field: "Forwarded"}
	if got := clientIP(t, forwarded)(request("10.0.0.1:1", "Forwarded", `For = "198.51.100.1" ; by=10.0.0.1;host="a;for=1.1.1.1,b\"c";proto=https`)); got != "198.51.100.1" {
		t.Errorf("among other parameters: %q", got)
	}
}

// cunning is what clients send so as to be taken for somebody else.
var cunning = []string{
	"1.1.1.1", "for=1.1.1.1", `"`, `for="`, `for="1.1.1.1`, `for="1.1.1.1\`, "for=1.1.1.1,", `\`, `\"`, "for=1.1.1.1;", ",,,", "10.0.0.9", "for=10.0.0.9",
	`for="10.0.0.9", for="`, `,"`, "for=unknown", "\t", "[", "1.1.1.1]",
}

// TestClientIPCantBeMadeUp: whatever a client sends, the proxy adds its address
// to it, on the same line or on a new one, and that is what counts.
//
// Promise: A client can't forge its address: only the fields of trusted
// proxies count.
func TestClientIPCantBeMadeUp(t *testing.T) {
	for _, sent := range cunning {
		for _, f := range madeUp(t, sent) {
			t.Error(f)
		}
	}
}

// Promise: A client can't forge its address: only the fields of trusted
// proxies count.
func FuzzClientIP(f *testing.F) {
	for _, sent := range cunning {
		f.Add(sent)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, f := range madeUp(t, sent) {
			t.Error(f)
		}
	})
}

func madeUp(t *testing.T, sent string) (faults []string) {
	for field, added := range map[string][]string{
		"X-Forwarded-For": {"198.51.100.1"},
		"Forwarded":       {"for=198.51.100.1", `proto=https;for="198.51.100.1:7";host="x,y;for=2.2.2.2"`, `host="x\"y;for=2.2.2.2,\"";for=198.51.100.1`, `for=198.51.100.1;host="x\"y;for=2.2.2.2"`},
	} {
		key := clientIP(t, httplimit.IPOptions{Trusted: prefixes(proxies), Field: field})
		other := "Forwarded"
		if field == other {
			other = "X-Forwarded-For"
		}
		for _, a := range added {
			for _, lines := range [][]string{{sent + "," + a}, {sent, a}, {sent + ", " + a + ", " + strings.ReplaceAll(a, "198.51.100.1", "10.3.3.3")}} {
				r := request("10.0.0.1:1", field, lines...)
				r.Header[other] = []string{sent}
				if got := key(r); got != "198.51.100.1" {
					faults = append(faults, field+" "+strings.Join(lines, " | ")+" gives "+got)
				}
			}
		}
	}
	return faults
}

func TestIPOptionsAreChecked(t *testing.T) {
	_, err := httplimit.ClientIP(httplimit.IPOptions{
		Trusted:  []netip.Prefix{{}, netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)},
		IPv6Bits: 129,
	})
	for _, want := range []string{"the zero one", "IPv4 in IPv6", "IPv6Bits is 129; want 1 to 128"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHeader(t *testing.T) {
	key := httplimit.Header("api-key")
	a, b, none := key(request("", "Api-Key", "s3cret")), key(request("", "Api-Key", "other")), key(request("", "X"))
	if a == b || a == none || none != "" || strings.Contains(a, "s3cret") || key(request("", "Api-Key", "s3cret")) != a {
		t.Errorf("%q, %q, %q", a, b, none)
	}
}
