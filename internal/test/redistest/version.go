package redistest

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Version is the version of Redis whose commands and options a server has.
type Version struct{ Major, Minor int }

// Before reports whether v is older than major.minor.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

// Needs skips a test that is about a feature of a newer server than the one under test. Debian's server has
// Redis 7.0, so there nothing is skipped.
func Needs(tb testing.TB, major, minor int, feature string) {
	tb.Helper()
	v, err := installed()
	if err != nil {
		tb.Fatal(err)
	}
	if v.Before(major, minor) {
		tb.Skipf("%s needs Redis %d.%d; this server has %d.%d", feature, major, minor, v.Major, v.Minor)
	}
}

var versionText = regexp.MustCompile(`v=(\d+)\.(\d+)`)

// installed returns the version of the server that the tests start. Every Valkey counts as Redis 7.2.
var installed = sync.OnceValues(func() (v Version, err error) {
	binary, err := lookPath("redis-server")
	if err != nil {
		return v, err
	}
	out, err := exec.CommandContext(context.Background(), binary, "--version").Output()
	if err != nil {
		return v, fmt.Errorf("redistest: %s --version: %w", binary, err)
	}
	text := string(out)
	m := versionText.FindStringSubmatch(text)
	switch {
	case strings.Contains(strings.ToLower(text), "valkey"):
		return Version{7, 2}, nil
	case m == nil:
		return v, fmt.Errorf("redistest: %s --version prints %q; want v=7.0.15 or the like in it", binary, text)
	}
	v.Major, _ = strconv.Atoi(m[1])
	v.Minor, _ = strconv.Atoi(m[2])
	return v, nil
})
