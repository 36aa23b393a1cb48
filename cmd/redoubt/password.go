package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// A secret is a password from a flag, the environment or a file.
type secret struct{ text, file string }

func (s *secret) flags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&s.text, "password", "", what+"; other users of the machine can see it in the list of processes: prefer REDOUBT_PASSWORD or --password-file")
	flags.StringVar(&s.file, "password-file", "", "`file` with the password")
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
