package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/scheme"
)

// withPassword adds a password to a URL that names none.
func withPassword(raw, password string) string {
	name, rest, ok := strings.Cut(raw, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if password == "" || !ok || strings.Contains(authority, "@") {
		return raw
	}
	// Not by net/url, which takes no list of hosts.
	return name + "://" + url.UserPassword("", password).String() + "@" + rest
}

// address is what a URL of a server points at, to be shown: never its
// password, nor anything that may be a part of one.
func address(raw string) string {
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

// shown is an argument as errors may show it. One that may be a URL may have a
// password in it.
func shown(arg string) string {
	if strings.ContainsAny(arg, "@/") {
		return "URL"
	}
	return strconv.Quote(arg)
}

// mayBeURL reports whether a path may be a URL in which something was forgotten, like
// its scheme. One that begins with a slash or a dot is a path.
func mayBeURL(path string) bool {
	if !strings.HasPrefix(path, "//") && (strings.HasPrefix(path, "/") || strings.HasPrefix(path, ".")) {
		return false
	}
	user, _, ok := strings.Cut(path, "@")
	return ok && strings.Contains(user, ":")
}

// listenAddress refuses a URL as an address to listen on: its password would be in
// the error.
func listenAddress(flag, address string) error {
	if strings.Contains(strings.TrimPrefix(address, "unix:"), "://") || mayBeURL(strings.TrimPrefix(strings.TrimPrefix(address, "unix:"), "//")) {
		return fmt.Errorf("%s is a URL, or has a user; want host:port", flag)
	}
	return nil
}

// What takes URLs, beside the commands that use a server's keys, which take all.
var (
	serveDoor = scheme.Door{
		Name: "serve --backend", Takes: append(slices.Clone(scheme.One), scheme.Embedded),
		Sentinel: "serve --pools takes it, as sentinels of a pool: see docs/pools.md",
		Cluster:  "serve --pools takes it, as cluster of a pool: see docs/pools.md",
	}
	moveDoor = scheme.Door{
		Name: "import or export", Takes: serveDoor.Takes,
		Sentinel: "name the master itself, like redis://host:port",
		Cluster:  "import the RDB file of each primary",
	}
)

// embeddedPath returns what follows "embedded:", and whether it does: the
// directory of an engine in this process, "" for one in memory.
func embeddedPath(url string) (path string, ok bool) {
	scheme, path, ok := strings.Cut(url, ":")
	if !ok || scheme != embeddedName {
		return "", false
	}
	return path, true
}
