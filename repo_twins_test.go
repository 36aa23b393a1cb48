package redoubt_test

import (
	"flag"
	"go/format"
	"os"
	"path"
	"strings"
	"testing"
)

var updateTwins = flag.Bool("update-twins", false, "write valkeyconn anew")

// twin turns the text of a file of rueidisconn into that of valkeyconn. valkey-go is a fork of rueidis that
// changed these names and little else.
var twin = strings.NewReplacer(
	"github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
	"rueidisconn", "valkeyconn",
	"RedisResult", "ValkeyResult",
	"RedisMessage", "ValkeyMessage",
	"RedisError", "ValkeyError",
	"a rueidis client", "a valkey-go client",
	"rueidis.", "valkey.",
	"rueidis", "valkey-go",
)

// TestTwinsAgree: valkeyconn is rueidisconn with other names, so a fault is mended in both. A module of
// generics over both would need an interface for a dozen types; two go.mod files would bring both clients.
func TestTwinsAgree(t *testing.T) {
	texts := sources(t, ".go")
	for file, text := range texts {
		if !strings.HasPrefix(file, "rueidisconn/") {
			continue
		}
		other := path.Join("valkeyconn", strings.TrimPrefix(file, "rueidisconn/"))
		formatted, err := format.Source([]byte(twin.Replace(text))) // the names have other lengths
		if err != nil {
			t.Fatal(err)
		}
		want := string(formatted)
		if *updateTwins {
			if err := os.MkdirAll(path.Dir(other), 0o755); err != nil { //nolint:gosec // a directory of the repository
				t.Fatal(err)
			}
			if err := os.WriteFile(other, []byte(want), 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
			continue
		}
		if texts[other] != want {
			t.Errorf("%s is not %s with the names of valkey-go: change the latter and run `go test . -run TestTwinsAgree -update-twins`", other, file)
		}
	}
	for file := range texts {
		name, ours := strings.CutPrefix(file, "valkeyconn/")
		if _, ok := texts["rueidisconn/"+name]; ours && !ok {
			t.Errorf("%s has no twin in rueidisconn", file)
		}
	}
}
