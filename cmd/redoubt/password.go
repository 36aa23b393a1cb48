package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A secret is a password from a flag, the environment or a file.
type secret struct{ text, file string }

func (s *secret) flags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&s.text, "password", "", what+"; others on the machine can see it in the list of processes, so better use REDOUBT_PASSWORD or --password-file")
	flags.StringVar(&s.file, "password-file", "", "`file` that holds the password")
}

// read returns the password, or "" when there is none.
func (s *secret) read() (string, error) {
	if s.file == "" {
		return s.text, nil
	}
	if s.text != "" {
		return "", usagef("both a password and a password file are given; give one")
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", fail(exitUsage, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", usagef("password file %s is empty", s.file)
	}
	return password, nil
}

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
