package main

import (
	"net/url"
	"os"
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
	if password == "" {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Scheme == "" {
		return raw
	}
	u.User = url.UserPassword("", password)
	return u.String()
}

// address is what a URL of a server points at, to be shown: never its
// password.
func address(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "the back end"
	case u.Host != "":
		return u.Host
	case u.Path != "":
		return u.Path
	}
	return u.Redacted()
}
