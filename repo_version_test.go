package redoubt_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOneVersion: a release has one version, and `make version` sets all places.
func TestOneVersion(t *testing.T) {
	version := read(t, "VERSION")
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?\n$`).MatchString(version) {
		t.Fatalf("VERSION is %q; want a line like v0.1.0", version)
	}
	check := func(path, text, pattern string) {
		for _, f := range versionFaults(path, text, pattern, strings.TrimSpace(version)) {
			t.Error(f)
		}
	}
	check("deploy/helm/redoubt/Chart.yaml", read(t, "deploy/helm/redoubt/Chart.yaml"), `(?m)^(?:version|appVersion): (\S+)$`)
	for path, text := range sources(t, "go.mod") {
		if path != "go.mod" && path != "internal/site/go.mod" { // neither requires the root module
			check(path, text, `(?m)^(?:require|\s+) *`+module+` (v\S+)`)
		}
	}
}

func versionFaults(path, text, pattern, version string) (faults []string) {
	lines := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		return []string{fmt.Sprintf("%s has no version: want a line that matches %s", path, pattern)}
	}
	for _, m := range lines {
		if m[1] != version && m[1] != strings.TrimPrefix(version, "v") {
			faults = append(faults, fmt.Sprintf("%s has version %s, and VERSION %s: `make version V=%s` sets it", path, m[1], version, version))
		}
	}
	return faults
}

func TestVersionFaultsAreFound(t *testing.T) {
	const pattern = `(?m)^(?:version|appVersion): (\S+)$`
	for text, want := range map[string]int{
		"version: 0.1.0\nappVersion: 0.1.0\n":  0,
		"version: v0.1.0\n":                    0,
		"version: 0.2.0\nappVersion: v0.0.0\n": 2,
		"versoin: 0.1.0\n":                     1,
	} {
		if got := versionFaults("Chart.yaml", text, pattern, "v0.1.0"); len(got) != want {
			t.Errorf("%q: found %q; want %d", text, got, want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
