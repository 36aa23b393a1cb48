package scheme_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/scheme"
)

func TestCheck(t *testing.T) {
	door := scheme.Door{
		Name: "the door", Takes: []string{"redis", "unix"},
		Sentinel: "name the master", Cluster: "name each primary", Embedded: "open an engine",
	}
	const malformed = "malformed URL: want redis://user:password@host:port/db, with special characters in the password percent-encoded"
	for url, want := range map[string]string{
		"redis://h":            "",
		"REDIS://h":            "",
		"unix:///s":            "",
		"rediss://h":           `URL scheme "rediss" is not known; want redis and unix`,
		"http://u:secret@h":    `URL scheme "http" is not known; want redis and unix`,
		"redis-sentinel://h/m": "the door takes no redis-sentinel URL, but redis and unix; name the master",
		"rediss-cluster://h":   "the door takes no rediss-cluster URL, but redis and unix; name each primary",
		"embedded:":            "the door takes no embedded URL, but redis and unix; open an engine",
		"embedded:/path":       "the door takes no embedded URL, but redis and unix; open an engine",
		"":                     malformed,
		"localhost:6379":       malformed,
		"u:secret@h":           malformed,
		"u@secret://h":         malformed,
	} {
		s, err := door.Check(url)
		got := ""
		if err != nil {
			got = err.Error()
		} else if s != "redis" && s != "unix" {
			t.Errorf("%q: scheme %q", url, s)
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", url, got, want)
		}
	}
}
