// Package scheme knows the URLs that Redoubt takes. A door is a function, a command or a flag
// that takes URLs, and every door refuses the others in the same words.
package scheme

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Embedded is the scheme of an engine in this process: embedded: in memory,
// embedded:/path in a directory.
const Embedded = "embedded"

var (
	// One names one server.
	One = []string{"redis", "rediss", "unix"}
	// Sentinel and Cluster name several.
	Sentinel = []string{"redis-sentinel", "rediss-sentinel"}
	Cluster  = []string{"redis-cluster", "rediss-cluster"}
	// Remote are all that name servers; All are all.
	Remote = slices.Concat(One, Sentinel, Cluster)
	All    = append(slices.Clone(Remote), Embedded)
)

// ErrMalformed says nothing about the text, because a password may be anywhere in a
// malformed URL.
var ErrMalformed = errors.New("malformed URL: want redis://user:password@host:port/db, with special characters in the password percent-encoded")

// A Door is where a URL is given.
type Door struct {
	// Name is its name for users, like "serve --backend".
	Name string
	// Takes are the schemes that it takes.
	Takes []string
	// Sentinel, Cluster and Embedded say what to do with a URL of that kind, if the door
	// doesn't take it.
	Sentinel, Cluster, Embedded string
}

// Of returns the scheme of a URL, in lower case. The error is [ErrMalformed].
func Of(url string) (string, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	scheme = strings.ToLower(scheme)
	if scheme == Embedded {
		return scheme, nil
	}
	if !strings.HasPrefix(rest, "//") || strings.ContainsAny(scheme, "@/?#") {
		return "", ErrMalformed
	}
	return scheme, nil
}

// Check returns the scheme of a URL that the door takes. The error for another one
// names no part of it but the scheme.
func (d Door) Check(url string) (string, error) {
	scheme, err := Of(url)
	if err != nil || slices.Contains(d.Takes, scheme) {
		return scheme, err
	}
	instead := ""
	switch {
	case slices.Contains(Sentinel, scheme):
		instead = d.Sentinel
	case slices.Contains(Cluster, scheme):
		instead = d.Cluster
	case scheme == Embedded:
		instead = d.Embedded
	}
	if instead == "" {
		return "", fmt.Errorf("URL scheme %q is not known; want %s", scheme, list(d.Takes))
	}
	return "", fmt.Errorf("%s takes no %s URL, but %s; %s", d.Name, scheme, list(d.Takes), instead)
}

// list writes words as in a sentence.
func list(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
