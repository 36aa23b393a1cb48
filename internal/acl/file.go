package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ParseFile reads the text of an ACL file of Redis: a line "user name rules" for each user. Empty lines and
// lines that begin with # are ignored. It returns the rules of each user, and the limited users that may run
// scripts: see [User.EscapesByScripts]. It joins all errors, which name the file and the line and never show a
// password. A file without users is an error.
func ParseFile(file, text string) (rules map[string]string, scripted []string, err error) {
	rules = make(map[string]string)
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: "+format, append([]any{file, n}, args...)...))
		}
		words := strings.FieldsFunc(line, isBlank)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] != "user" || len(words) < 2 {
			fail(`want a line like "user name on >password ~key* +@read"`)
			continue
		}
		name := words[1]
		user, err := New(name, strings.Join(words[2:], " "))
		if err != nil {
			fail("user %q: %s", name, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		if _, twice := rules[name]; twice {
			fail("an earlier line has user %q too", name)
		}
		rules[name] = strings.Join(words[2:], " ")
		if user.EscapesByScripts() {
			scripted = append(scripted, name)
		}
	}
	if len(rules) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf(`%s has no user; want a line like "user name on >password ~key* +@read" for each`, file))
	}
	slices.Sort(scripted)
	return rules, scripted, errors.Join(errs...)
}
