package main

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/redisurl"
	"github.com/redoubt-go/redoubt/internal/scheme"
)

// withPassword adds a password to a URL without one.
func withPassword(raw, password string) string {
	name, rest, ok := strings.Cut(raw, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if password == "" || !ok || strings.Contains(authority, "@") {
		return raw
	}
	// Not by net/url, which accepts no list of hosts.
	return name + "://" + url.UserPassword("", password).String() + "@" + rest
}

// address returns the address in a URL for messages, without its password or anything that may be a part
// of it.
func address(raw string) string {
	if of, err := redisurl.Parse(raw); err == nil && of.Single == nil {
		return of.String()
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Fragment != "" || strings.Contains(u.RawQuery, "@"):
	case u.Host != "" && !strings.Contains(u.Path, "@"):
		return u.Host
	case u.Host == "" && u.Path != "" && (u.Scheme == "unix" || !strings.Contains(u.Path, "@")):
		return u.Path
	}
	return "the back end"
}

// shown returns an argument as errors may show it: a URL may contain a password.
func shown(arg string) string {
	if strings.ContainsAny(arg, "@/") {
		return "URL"
	}
	return strconv.Quote(arg)
}

// mayBeURL reports whether a path may be an incomplete URL, for example without its scheme. A text that
// begins with a slash or a dot is a path.
func mayBeURL(path string) bool {
	if !strings.HasPrefix(path, "//") && (strings.HasPrefix(path, "/") || strings.HasPrefix(path, ".")) {
		return false
	}
	user, _, ok := strings.Cut(path, "@")
	return ok && strings.Contains(user, ":")
}

// The doors that say in their own words what they take. Commands on keys of a server accept all.
var (
	serveDoor  = scheme.Door{Name: "serve --backend", Takes: scheme.All}
	doctorDoor = scheme.Door{
		Name: "doctor", Takes: scheme.Remote,
		Embedded: "name the redoubt serve that has it, like redis://127.0.0.1:6380",
	}
	moveDoor = scheme.Door{
		Name: "import or export", Takes: slices.Concat(scheme.One, []string{scheme.Embedded}),
		Sentinel: "name the master itself, like redis://host:port",
		Cluster:  "import the RDB file of each primary",
	}
)

// embeddedPath returns the path of an embedded: URL: the directory of an engine in this process, or ""
// for one in memory.
func embeddedPath(url string) (path string, ok bool) {
	scheme, path, ok := strings.Cut(url, ":")
	if !ok || scheme != embeddedName {
		return "", false
	}
	return path, true
}
