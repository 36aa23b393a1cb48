package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type flags struct {
	*pflag.FlagSet
	listen string
	idle   time.Duration
	max    Bytes
	quiet  bool
	config string
	hosts  []string
}

func newFlags() *flags {
	f := &flags{FlagSet: pflag.NewFlagSet("test", pflag.ContinueOnError), max: 1 << 20}
	f.StringVar(&f.listen, "listen", "default", "")
	f.DurationVar(&f.idle, "idle-timeout", 0, "")
	f.Var(&f.max, "max-bulk", "")
	f.BoolVar(&f.quiet, "quiet", false, "")
	f.StringVar(&f.config, "config", "", "")
	f.StringSliceVar(&f.hosts, "hosts", []string{"default"}, "")
	return f
}

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name, want string
		args       []string
		env        []string
		file       string
	}{
		{"default", "default", nil, nil, "quiet: true"},
		{"file over default", "file", nil, nil, "listen: file"},
		{"environment over file", "env", nil, []string{"X_LISTEN=env"}, "listen: file"},
		{"flag over environment", "flag", []string{"--listen=flag"}, []string{"X_LISTEN=env"}, "listen: file"},
		{"empty environment counts", "", nil, []string{"X_LISTEN="}, "listen: file"},
		{"empty string in the file counts", "", nil, nil, `listen: ""`},
		{"empty flag counts", "", []string{"--listen="}, []string{"X_LISTEN=env"}, "listen: file"},
		{"flag equal to the default counts", "default", []string{"--listen=default"}, []string{"X_LISTEN=env"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlags()
			if err := f.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if err := Fill(f.FlagSet, Sources{Env: env(c.env...), Prefix: "X_", File: write(t, c.file)}); err != nil {
				t.Fatal(err)
			}
			if f.listen != c.want {
				t.Errorf("listen = %q; want %q", f.listen, c.want)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	f := newFlags()
	file := write(t, "# a comment\nidle-timeout: 5m\nmax-bulk: 64MiB\nquiet: true\nttl: 3s\n")
	err := Fill(f.FlagSet, Sources{Env: env("X_IDLE_TIMEOUT=7s"), Prefix: "X_", File: file, Others: []string{"ttl"}})
	if err != nil {
		t.Fatal(err)
	}
	if f.idle != 7*time.Second || f.max != 64<<20 || !f.quiet {
		t.Errorf("got %v, %v, %v", f.idle, f.max, f.quiet)
	}
}

func TestFaults(t *testing.T) {
	const allowed = "allowed are hosts, idle-timeout, listen, max-bulk, quiet, ttl"
	for _, c := range []struct {
		name, file string
		env        []string
		want       []string
	}{
		{"unknown key", "listen: x\n\nlistne: y\n", nil, []string{`redoubt.yaml:3: unknown setting "listne"; ` + allowed}},
		{"the file's own name", "config: other.yaml\n", nil, []string{`:1: unknown setting "config"`}},
		{"bad value", "idle-timeout: soon\n", nil, []string{`:1: idle-timeout: `, `"soon"`}},
		{"bad value in the environment", "", []string{"X_IDLE_TIMEOUT=soon"}, []string{`environment: X_IDLE_TIMEOUT: `, `"soon"`}},
		{"all faults at once", "a: 1\nb: 2\n", nil, []string{`:1: unknown setting "a"`, `:2: unknown setting "b"`}},
		{"twice", "listen: x\nlisten: y\n", nil, []string{":2: listen is set twice; first in line 1"}},
		{"no value", "listen:\n", nil, []string{`:1: listen has no value; write "" for an empty one`}},
		{"nested", "listen:\n  tcp: x\n", nil, []string{":2: listen: want a single value"}},
		{"a list in a list", "hosts: [[a]]\n", nil, []string{":1: hosts: want a single value"}},
		{"a list with nothing in it", "hosts:\n  - a\n  -\n", nil, []string{":2: hosts: want a single value"}},
		{"a list for a flag with one value", "idle-timeout: 1s\nlisten: [x]\n", nil, []string{":2: listen: want a single value"}},
		{"list", "- listen\n", nil, []string{":1: want lines like"}},
		{"no YAML", "listen: [\n", nil, []string{"redoubt.yaml: line "}},
		{"two documents", "listen: x\n---\nlisten: y\n", nil, []string{"second document"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Fill(newFlags().FlagSet, Sources{
				Env: env(c.env...), Prefix: "X_", File: write(t, c.file),
				Others: []string{"ttl"}, Except: []string{"config"},
			})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q\ndoes not say %q", err, want)
				}
			}
		})
	}
	if err := Fill(newFlags().FlagSet, Sources{Env: env(), File: "/does/not/exist"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gave %v", err)
	}
	for _, file := range []string{"", "# nothing\n", "---\n"} {
		if err := Fill(newFlags().FlagSet, Sources{Env: env(), File: write(t, file)}); err != nil {
			t.Errorf("an empty file %q gave %v", file, err)
		}
	}
}

// TestLists: the file may give a list to a flag that takes several values.
func TestLists(t *testing.T) {
	for file, want := range map[string][]string{
		"hosts: a, b\n": {"a", " b"}, "hosts: [a, 1]\n": {"a", "1"}, "hosts:\n  - a,b\n": {"a,b"}, "hosts: []\n": nil, "quiet: true\n": {"default"},
		"serve: {hosts: [a]}\n": {"a"}, "queue: {hosts: [a]}\n": {"default"},
	} {
		f := newFlags()
		section := func(path []string) ([]string, bool) {
			return []string{"hosts"}, path[0] == "serve" || path[0] == "queue"
		}
		err := Fill(f.FlagSet, Sources{Env: env(), File: write(t, file), Path: []string{"serve"}, Section: section})
		if err != nil || !slices.Equal(f.hosts, want) {
			t.Errorf("%q: %q, %v; want %q", file, f.hosts, err, want)
		}
		if changed := f.Changed("hosts"); changed != !slices.Equal(want, []string{"default"}) {
			t.Errorf("%q: Changed is %t", file, changed)
		}
	}
}

// TestSections: one file serves all commands, where their settings differ.
func TestSections(t *testing.T) {
	commands := map[string][]string{"serve": {"listen", "quiet"}, "queue": {"ttl"}, "queue take": {"listen", "ttl"}}
	section := func(path []string) ([]string, bool) {
		allowed, ok := commands[strings.Join(path, " ")]
		return allowed, ok
	}
	const file = "listen: all\nqueue:\n  ttl: 1s\n  take:\n    listen: take\nserve:\n  listen: serve\n"
	for path, want := range map[string]string{"serve": "serve", "queue take": "take", "queue put": "all", "lock": "all", "": "all"} {
		f := newFlags()
		err := Fill(f.FlagSet, Sources{Env: env(), File: write(t, file), Others: []string{"ttl"}, Path: strings.Fields(path), Section: section})
		if err != nil || f.listen != want {
			t.Errorf("command %q: listen is %q, %v; want %q", path, f.listen, err, want)
		}
	}
	// The faults of all sections are found, whatever the command is.
	for text, want := range map[string]string{
		"queue: {listen: x}\n":           `:1: unknown setting "listen"; allowed are ttl`,
		"serve:\n  listen: x\n  nope: y": `:3: unknown setting "nope"; allowed are listen, quiet`,
		"serve: x\n":                     `:1: unknown setting "serve"`,
		"take: {listen: x}\n":            `:1: unknown setting "take"`,
		"serve: {a: 1}\nserve: {b: 1}\n": `:2: serve is set twice; first in line 1`,
	} {
		err := Fill(newFlags().FlagSet, Sources{Env: env(), File: write(t, text), Section: section, Path: []string{"lock"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", text, err, want)
		}
	}
}

// TestUnknownVariables: a misspelled variable is an error, as a misspelled key of the file is.
func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"X_LISTEN=a": "", "X_TTL=a": "", "X_CONFIG=a": "", "PATH=a": "", "X_FOREIGN=a": "",
		"X_LISTNE=secret":      "environment: X_LISTNE: no setting has this name; did you mean X_LISTEN?",
		"X_IDLE_TIMEOUTS=a":    "did you mean X_IDLE_TIMEOUT?",
		"X_SOMETHING_ELSE=a":   "environment: X_SOMETHING_ELSE: no setting has this name",
		"X_QUIET=true":         "environment: X_QUIET: only the command line can set --quiet",
		"X_=a":                 "environment: X_: no setting",
		"X_LISTEN_AND_MORE=5s": "environment: X_LISTEN_AND_MORE: no setting has this name",
	} {
		err := Fill(newFlags().FlagSet, Sources{
			Env: env(), Prefix: "X_", Environ: []string{variable}, Others: []string{"ttl"}, Except: []string{"config"}, OnLine: []string{"quiet"},
			Foreign: func(name, _ string) bool { return name == "X_FOREIGN" },
		})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", variable, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: error %v; want %q", variable, err, want)
		}
	}
}

// TestPlain: errors have no words of Go's packages.
func TestPlain(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Int("int", 0, "")
	f.Int64("int64", 0, "")
	f.Float64("float", 0, "")
	f.Bool("bool", false, "")
	f.Duration("duration", 0, "")
	f.Var(new(Bytes), "size", "")
	for arg, want := range map[string]string{
		"int=many": `"many" is not a whole number`, "int64=99999999999999999999": `"99999999999999999999" is out of range`, "float=x": `"x" is not a number`,
		"bool=perhaps": `"perhaps" is neither true nor false`, "duration=soon": `"soon" is not a duration; want one like 300ms, 90s or 1h30m`,
		"duration=5": `"5" is not a duration`, "size=x": `"x" is not a size`,
	} {
		name, value, _ := strings.Cut(arg, "=")
		err := f.Set(name, value)
		if err == nil {
			t.Fatalf("%s is accepted", arg)
		}
		if got := Plain(f.Lookup(name), value, err).Error(); !strings.HasPrefix(got, want) || strings.Contains(got, "strconv") {
			t.Errorf("%s: %q; want %q", arg, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"0": 0, "1": 1, "10b": 10, "1024": 1024, "1KiB": 1024, "1kb": 1024,
		"64 MiB": 64 << 20, "2GB": 2 << 30,
	} {
		var b Bytes
		if err := b.Set(in); err != nil || b != want {
			t.Errorf("Set(%q) = %d, %v; want %d", in, b, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "1.5MiB", "MiB", "1TiB", "99999999999GiB"} {
		var b Bytes
		if err := b.Set(in); err == nil {
			t.Errorf("Set(%q) = %d; want an error", in, b)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add("64MiB")
	f.Add("10b")
	f.Fuzz(func(t *testing.T, in string) {
		var b, again Bytes
		if b.Set(in) != nil {
			return
		}
		if b < 0 {
			t.Fatalf("Set(%q) = %d", in, b)
		}
		if err := again.Set(b.String()); err != nil || again != b {
			t.Fatalf("%q is %d, printed as %q, read as %d, %v", in, b, b.String(), again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("listen: x\nquiet: true\n")
	f.Add("a: &x 1\nb: *x\n")
	f.Add("? [a]\n: b\n")
	f.Add("lock: {listen: x, lock: {quiet: y}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		allowed := []string{"listen", "quiet"}
		settings, errs := parse([]byte(text), allowed, Sources{Section: func(path []string) ([]string, bool) {
			return allowed, path[len(path)-1] == "lock" && len(path) < 4
		}})
		for key, s := range settings {
			if !slices.Contains(allowed, key) || s.line < 1 {
				t.Fatalf("%q gave %q: %+v", text, key, s)
			}
		}
		for _, err := range errs {
			if err.Error() == "" {
				t.Fatalf("%q gave an empty error", text)
			}
		}
	})
}
