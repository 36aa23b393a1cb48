package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/settings"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write the tables of flags into docs/cli.md")

const docsFile = "../../docs/cli.md"

// likeAnother are commands with the same flags as another: lock, queue cancel, queue schedule remove, stock info, cache stats.
var likeAnother = []string{"lock run", "queue pause", "queue resume", "queue schedule pause", "queue schedule resume", "stock set", "stock add", "cache get", "cache invalidate"}

// TestDocs: docs/cli.md has the tables of all flags.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for cmd := range within(newRoot()) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if !cmd.LocalFlags().HasAvailableFlags() || path == "" || slices.Contains(likeAnother, path) {
			continue
		}
		section := regexp.MustCompile(`(?s)(<!-- flags of ` + path + `:[^>]*-->\n).*?(<!-- end -->)`)
		if cmd.Name() != "help" && cmd.Name() != "completion" && !section.MatchString(want) {
			t.Errorf("docs/cli.md has no section for the flags of %s", path)
		}
		want = section.ReplaceAllString(want, "${1}"+strings.ReplaceAll(flagTable(cmd.LocalFlags()), "$", "$$")+"${2}")
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("docs/cli.md is out of date: run `go generate ./cmd/redoubt`")
	}
}

func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| Flag | Environment | Default | Meaning |\n|---|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "config" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		standard := ""
		if f.DefValue != "" {
			standard = "`" + f.DefValue + "`"
		}
		env := ""
		if isSetting(f) {
			env = "`" + settings.EnvName(envPrefix, f.Name) + "`"
		}
		fmt.Fprintf(&b, "| `--%s` %s | %s | %s | %s |\n", f.Name, kind, env, standard, usage)
	})
	return b.String()
}
