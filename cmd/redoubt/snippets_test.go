package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v3"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

const repository = "../.."

// TestShellSnippets runs the snippets of docs/ and README in sh and bash, in an empty directory for each page, with
// a server that is empty at the beginning of each page; package snippets says how they are written. Of snippets that
// can't be run, the names of commands and their flags are checked.
func TestShellSnippets(t *testing.T) {
	all := snippets.Of(t, repository, "sh", "bash", "console", "yaml")
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for line := range strings.Lines(s.Text) {
			call, called := strings.CutPrefix(line, "$ ")
			if s.Lang != "yaml" && called == (s.Lang == "console") {
				checkFlags(t, s.Where(), call)
				checkTarget(t, s.Where(), string(makefile), call)
			}
		}
	}
	redoubt := wrapped(t)
	server := startServe(t)
	client := redis.NewClient(&redis.Options{Addr: server.addr})
	defer func() { _ = client.Close() }()
	page, dir, files := "", "", map[string]string(nil)
	for _, s := range all {
		if page != s.File {
			page, dir, files = s.File, t.TempDir(), map[string]string{}
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if err := client.FunctionFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case s.IsFile():
			files[s.Kind] = s.Text
		case s.NoRun == "" && s.Lang != "yaml":
			t.Run(s.Where(), func(t *testing.T) {
				p := &snippetServers{t: t, dir: dir, redoubt: redoubt, own: server, known: map[string]string{}}
				p.play(s, files)
			})
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// play runs a snippet with its setup. files has the files that the page has shown, by their names.
func (p *snippetServers) play(s snippets.Snippet, files map[string]string) {
	p.t.Helper()
	p.serves = serveLine.MatchString(s.Text)
	for name, text := range files {
		if strings.Contains(s.Text, name) {
			writeFile(p.t, filepath.Join(p.dir, name), p.replace(text))
		}
	}
	if strings.Contains(s.Text, "--tls-cert-file") {
		p.certificates()
	}
	for _, name := range belowRoot {
		if err := os.MkdirAll(filepath.Join(p.dir, name), 0o700); err != nil {
			p.t.Fatal(err)
		}
	}
	shell := "sh"
	if s.Lang == "bash" {
		shell = "bash"
	}
	setup, text, _ := strings.Cut(p.replace(s.Setup+"\x00"+s.Text), "\x00")
	for line := range strings.Lines(p.run("sh", setup)) {
		if older, newer, told := strings.Cut(strings.TrimSpace(line), "="); told {
			text = strings.ReplaceAll(text, older, newer)
		}
	}
	if s.Lang != "console" {
		out := ""
		for _, part := range serveParts(text) {
			if serveLine.MatchString(part) {
				p.serve(part)
			} else {
				out += p.run(shell, part)
			}
		}
		if s.HasOutput {
			p.same(s.Where(), text, out, s.Output)
		}
		return
	}
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		script, want, _ := strings.Cut(part, "\n")
		p.same(s.Where(), script, p.run(shell, script), want)
	}
}

func (p *snippetServers) same(where, script, got, want string) {
	p.t.Helper()
	if g, w := shapeOf(got), shapeOf(want); !like(strings.Split(g, "\n"), strings.Split(w, "\n")) {
		p.t.Errorf("%s: %s\nprinted\n%s\nwant\n%s", where, script, got, want)
	}
}

// run runs a script to its end.
func (p *snippetServers) run(shell, script string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), shell, "-e", "-c", script) //nolint:gosec // ours
	cmd.Dir, cmd.Env = p.dir, p.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// like compares lines with the wanted lines, where … stands for any number of lines.
func like(got, want []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		return like(got, want[1:]) || len(got) > 0 && like(got[1:], want)
	}
	return len(got) > 0 && got[0] == want[0] && like(got[1:], want[1:])
}

var (
	aNumber = regexp.MustCompile(`\S*[0-9]\S*( ([KMGT]iB|B)\b)?`)
	blanks  = regexp.MustCompile(`[ \t]+`)
)

// shapeOf makes outputs comparable: words with digits are times, counts, sizes and IDs.
func shapeOf(output string) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(output, "just now", "0s ago")) {
		line = aNumber.ReplaceAllString(strings.TrimSpace(line), "#")
		lines = append(lines, blanks.ReplaceAllString(line, " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

var endOfCommand = regexp.MustCompile(`\s(#|--\s|\||&&|>|<|;).*`)

// checkFlags fails if a line that calls redoubt names a command or a flag that is not there.
func checkFlags(t *testing.T, where, line string) {
	t.Helper()
	at := regexp.MustCompile(`(^|\s)redoubt .*`).FindString(line)
	words := strings.Fields(endOfCommand.ReplaceAllString(at+" ", " "))
	if len(words) < 2 || words[1] == "completion" { // cobra adds it when a command runs
		return
	}
	cmd, args, err := newRoot().Find(words[1:])
	if err == nil && cmd.Name() == "redoubt" {
		t.Errorf("%s: %s: no such command", where, at)
		return
	}
	var flags []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") && a != "-" {
			name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help" && name != "version" {
				flags = append(flags, a)
			}
		}
	}
	if err != nil || flags != nil {
		t.Errorf("%s: %s: %v, flags that are not there: %q", where, at, err, flags)
	}
}

// checkTarget fails if a line calls make for a target that is not there.
func checkTarget(t *testing.T, where, makefile, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) > 1 && words[0] == "make" && !strings.Contains(makefile, "\n"+words[1]+":") {
		t.Errorf("%s: the Makefile has no target %s", where, words[1])
	}
}

// TestYAMLSnippets parses the files of pools in docs/ and README, and what else is in YAML.
func TestYAMLSnippets(t *testing.T) {
	server := startServe(t)
	for _, s := range snippets.Of(t, repository, "yaml") {
		var err error
		switch {
		case s.NoRun != "":
		case s.Kind == "settings":
			err = checkSettings(t, s.Text)
		case s.Kind == "prometheus":
			err = checkPrometheus(t, server, s.Text)
		case s.Kind == "pod":
			err = checkPod(t, server, s.Text)
		case s.Kind == "pool":
			text := "alpha:\n  listen: 127.0.0.1:22121\n  redis: true\n" + s.Text + "\n"
			if !strings.Contains(text, "\n  servers:\n") {
				text += "  servers:\n   - 127.0.0.1:6379:1 redis-1\n"
			}
			_, err = poolfile.Parse(s.File, []byte(text))
		default:
			_, err = poolfile.Parse(s.File, []byte(s.Text))
		}
		if err != nil {
			t.Errorf("%s: %v", s.Where(), err)
		}
	}
}

// checkSettings gives a file of settings to every command.
func checkSettings(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	writeFile(t, file, text)
	root := newRoot()
	for cmd := range within(root) {
		cmd.InheritedFlags() // adds the flags of its parents
		if err := cmd.Flags().Set("config", file); err != nil {
			return err
		}
		if err := fill(root, cmd); err != nil {
			return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
		}
	}
	return nil
}

// defaultHTTP is the http address of a server without settings.
func defaultHTTP() string { return newServe().Flags().Lookup("http").DefValue }

// strictly reads YAML that has no other keys than a struct.
func strictly(text string, into any) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

// checkPrometheus scrapes a server as a part of the configuration of Prometheus says.
func checkPrometheus(t *testing.T, server *serving, text string) error {
	t.Helper()
	var c struct {
		Jobs []struct {
			Name    string `yaml:"job_name"`
			Targets []struct {
				Addrs []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		Rules []string `yaml:"rule_files"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if len(c.Jobs) != 1 || len(c.Jobs[0].Targets) != 1 || !slices.Equal(c.Jobs[0].Targets[0].Addrs, []string{defaultHTTP()}) {
		return fmt.Errorf("the jobs are %+v; want one with the target %s", c.Jobs, defaultHTTP())
	}
	if status, _ := server.get(t, "/metrics"); status != http.StatusOK {
		return fmt.Errorf("/metrics answers %d", status)
	}
	for _, file := range c.Rules {
		if _, err := os.Stat(filepath.Join(repository, "deploy/prometheus", file)); err != nil {
			return err
		}
	}
	return nil
}

// checkPod asks a server what the probes of a pod ask.
func checkPod(t *testing.T, server *serving, text string) error {
	t.Helper()
	type probe struct {
		Get struct {
			Path string
			Port int
		} `yaml:"httpGet"`
		Timeout  int `yaml:"timeoutSeconds"`
		Period   int `yaml:"periodSeconds"`
		Failures int `yaml:"failureThreshold"`
	}
	var pod struct {
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
		Startup   probe `yaml:"startupProbe"`
	}
	if err := strictly(text, &pod); err != nil {
		return err
	}
	for _, p := range []probe{pod.Liveness, pod.Readiness, pod.Startup} {
		if !strings.HasSuffix(defaultHTTP(), fmt.Sprint(":", p.Get.Port)) {
			return fmt.Errorf("the port is %d; want that of %s", p.Get.Port, defaultHTTP())
		}
		if status, _ := server.get(t, p.Get.Path); status != http.StatusOK {
			return fmt.Errorf("%s answers %d", p.Get.Path, status)
		}
	}
	return nil
}
