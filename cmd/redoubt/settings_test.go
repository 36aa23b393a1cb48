package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/command"
)

// TestSettings tests the three sources on the real binary. Package settings tests all cases.
func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	// "listen" is a setting of another command that shares the file.
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\nformat: markdown\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := strings.ToUpper(command.All()[0].Group) + "\n"
	for _, c := range []struct {
		name, begins string
		env, args    []string
	}{
		{"default", table, nil, nil},
		{"file", "# Commands", nil, []string{"--config", file}},
		{"file named in the environment", "# Commands", []string{"REDOUBT_CONFIG=" + file}, nil},
		{"environment over file", "[\n", []string{"REDOUBT_FORMAT=json"}, []string{"--config", file}},
		{"flag over environment", table, []string{"REDOUBT_FORMAT=json"}, []string{"--config", file, "--format=table"}},
	} {
		code, out, stderr := runToEnd(t, c.env, append([]string{"commands"}, c.args...)...)
		if code != 0 || !strings.HasPrefix(out, c.begins) {
			t.Errorf("%s: exit %d, %.60q, %q; want it to begin with %q", c.name, code, out, stderr, c.begins)
		}
	}
}

func TestSettingsFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	if err := os.WriteFile(file, []byte("# serve\nlistne: 127.0.0.1:1\nmax-clients: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runToEnd(t, []string{"REDOUBT_IDLE_TIMEOUT=soon"}, "serve", "--config", file)
	if code != exitUsage {
		t.Errorf("exit %d; want %d", code, exitUsage)
	}
	mustContain(t, "stderr", stderr,
		file+`:2: unknown setting "listne"; allowed are aclfile, backend, dir, drain-timeout, `, "listen",
		file+":3: max-clients: ", `"many"`,
		"environment: REDOUBT_IDLE_TIMEOUT: ", `"soon"`)
	if code, _, stderr := runToEnd(t, nil, "serve", "--config", file+".none"); code != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("a missing file: exit %d, %q", code, stderr)
	}
}
