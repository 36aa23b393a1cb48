package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"
)

// TestDeploy checks the files in deploy. `make release-check` also runs helm and goreleaser, which take
// minutes to build.
func TestDeploy(t *testing.T) {
	t.Parallel()
	redoubt := filepath.Join(t.TempDir(), "redoubt")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", redoubt, "./cmd/redoubt")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	t.Run("settings", func(t *testing.T) {
		acceptsSettings(t, redoubt, readFile(t, "../deploy/systemd/redoubt.yaml"))
	})
	t.Run("systemd", testUnit)
	t.Run("Dockerfile", func(t *testing.T) { testDockerfile(t, redoubt) })
	t.Run("packages", func(t *testing.T) { testPackages(t, redoubt) })
	t.Run("compose", testCompose)
	t.Run("helm", func(t *testing.T) { testChart(t, redoubt) })
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// acceptsSettings checks a file of settings by the binary.
func acceptsSettings(t *testing.T, redoubt, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// It reads the settings of serve, and ends because of the value that comes after them.
	out, err := exec.CommandContext(t.Context(), redoubt, "serve", "--config", file, "--log-level=none").CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), `log-level is "none"`) {
		t.Errorf("redoubt serve refuses these settings:\n%s\n%v: %s", text, err, out)
	}
}

// drainTimeout is the default of --drain-timeout.
func drainTimeout(t *testing.T) time.Duration {
	t.Helper()
	m := regexp.MustCompile("(?m)^\\| `--drain-timeout` .*? \\| `([0-9a-z]+)` \\|").FindStringSubmatch(readFile(t, "../docs/cli.md"))
	if m == nil {
		t.Fatal("docs/cli.md has no default of --drain-timeout")
	}
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func outlastsDrain(t *testing.T, what string, given time.Duration) {
	t.Helper()
	if drain := drainTimeout(t); given < drain+5*time.Second {
		t.Errorf("%s is %v; want at least 5s more than --drain-timeout, %v", what, given, drain)
	}
}

func testUnit(t *testing.T) {
	unit := readFile(t, "../deploy/systemd/redoubt.service")
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\S+)$`).FindStringSubmatch(unit)
	if stop == nil {
		t.Fatal("redoubt.service has no TimeoutStopSec")
	}
	d, err := time.ParseDuration(stop[1])
	if err != nil {
		t.Fatal(err)
	}
	outlastsDrain(t, "TimeoutStopSec", d)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed") // Reason: only systems with systemd have it.
	}
	// It checks that the program exists, and that the socket has its service.
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "redoubt.service"), filepath.Join(dir, "redoubt.socket")
	sockets := readFile(t, "../deploy/systemd/redoubt.socket")
	if err := os.WriteFile(socket, []byte(sockets), 0o600); err != nil {
		t.Fatal(err)
	}
	// A socket without its address in the settings would be closed.
	for _, m := range regexp.MustCompile(`(?m)^ListenStream=(\S+)$`).FindAllStringSubmatch(sockets, -1) {
		if !strings.Contains(readFile(t, "../deploy/systemd/redoubt.yaml"), ": "+m[1]+"\n") {
			t.Errorf("redoubt.yaml has no address %s, which redoubt.socket opens", m[1])
		}
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/bin/redoubt", "/bin/sh")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file, socket).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// systemd before 250 has no --offline.
	version, err := exec.CommandContext(t.Context(), analyze, "--version").Output()
	var number int
	if _, serr := fmt.Sscanf(string(version), "systemd %d", &number); err != nil || serr != nil {
		t.Fatalf("systemd-analyze --version: %v, %v\n%s", err, serr, version)
	}
	if number < 250 {
		t.Skipf("systemd %d can't judge a unit that is not installed", number) // Reason: only the system has a newer one.
	}
	// The exposure is a number from 0 to 10; the threshold has ten times that.
	if out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20", "--no-pager", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

func testDockerfile(t *testing.T, redoubt string) {
	text := strings.ReplaceAll(readFile(t, "../deploy/docker/Dockerfile"), "\\\n", " ")
	last := map[string]string{} // the last value of each instruction
	for line := range strings.Lines(text) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "VOLUME", "EXPOSE", "ENV", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
		if !slices.Contains(known, word) {
			t.Errorf("instruction %q; want one of %q", word, known)
		}
		last[word] = value
	}
	if !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(last["USER"]) {
		t.Errorf("USER is %q; want numbers above 0, which Kubernetes can check", last["USER"])
	}
	if last["FROM"] != "scratch" || !strings.Contains(last["RUN"], "CGO_ENABLED=0") {
		t.Errorf("the last FROM is %q; want scratch and a static binary", last["FROM"])
	}
	if !strings.Contains(last["HEALTHCHECK"], "--start-period=10m ") {
		t.Errorf("HEALTHCHECK is %s; want ten minutes for the engine to read its log", last["HEALTHCHECK"])
	}
	_, check, _ := strings.Cut(last["HEALTHCHECK"], " CMD ")
	words := map[string][]string{}
	for name, value := range map[string]string{"HEALTHCHECK": check, "ENTRYPOINT": last["ENTRYPOINT"], "CMD": last["CMD"]} {
		var list []string // scratch has no shell
		if err := json.Unmarshal([]byte(value), &list); err != nil || len(list) == 0 || (name != "CMD" && list[0] != "/usr/bin/redoubt") {
			t.Fatalf("%s is %s; want a JSON array of strings that begins with the binary", name, value)
		}
		words[name] = list
	}
	if env := strings.Fields(last["ENV"]); !slices.Equal(env, []string{"REDOUBT_LISTEN=:6380", "REDOUBT_HTTP=:8080"}) || last["EXPOSE"] != "6380 8080" {
		t.Errorf("ENV is %q, EXPOSE %q; want both ports", env, last["EXPOSE"])
	}
	if !slices.Equal(words["HEALTHCHECK"][1:], []string{"health", "--live"}) {
		t.Errorf("HEALTHCHECK is %s; want one that doesn't ask the back end", check)
	}
	isHealthy(t, redoubt, words["CMD"], words["HEALTHCHECK"][1:])
	goVersion := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(readFile(t, "../go.mod"))[1]
	if !strings.Contains(text, "FROM --platform=$BUILDPLATFORM golang:"+goVersion+"-") {
		t.Errorf("the Dockerfile doesn't build with Go %s, which go.mod requires, on the machine's own platform", goVersion)
	}
}

// isHealthy serves as the image does, but at other addresses and in another directory, and runs the health check.
func isHealthy(t *testing.T, redoubt string, serve, check []string) {
	t.Helper()
	args := strings.ReplaceAll(strings.Join(serve, " "), "/data", t.TempDir())
	image := serveDashboard(t, redoubt, "image", strings.Fields(args)[1:]...)
	health := exec.CommandContext(t.Context(), redoubt, check...)
	health.Env = append(os.Environ(), "REDOUBT_HTTP="+strings.Trim(strings.TrimPrefix(image.page, "http:"), "/"))
	if out, err := health.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("the health check says %q: %v", out, err)
	}
}

// testPackages checks that each file of the archives and packages exists.
func testPackages(t *testing.T, redoubt string) {
	var file struct {
		Before   struct{ Hooks []string }
		Archives []struct{ Files []any }
		Nfpms    []struct {
			Contents []struct{ Src, Dst string }
		}
		Casks []struct{ Completions map[string]string } `yaml:"homebrew_casks"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "../.goreleaser.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	made := t.TempDir() // what the hooks make, in bin
	if out, err := exec.CommandContext(t.Context(), redoubt, "man", filepath.Join(made, "man")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(made, "completion"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, err := exec.CommandContext(t.Context(), redoubt, "completion", shell).Output()
		if err == nil {
			err = os.WriteFile(filepath.Join(made, "completion", "redoubt."+shell), out, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, hook := range file.Before.Hooks {
		// goreleaser wants an empty dist after the hooks.
		if strings.Contains(hook, "dist") {
			t.Errorf("a hook before the build uses dist: %s", hook)
		}
	}
	exists := func(src string) {
		pattern := filepath.Join("..", src)
		if below, ok := strings.CutPrefix(src, "bin/"); ok {
			pattern = filepath.Join(made, below)
		}
		if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
			t.Errorf("nothing matches %q, which .goreleaser.yaml wants: %v", src, err)
		}
	}
	inArchive := map[string]string{} // a directory of an archive → where its files come from
	for _, a := range file.Archives {
		for _, f := range a.Files {
			if m, ok := f.(values); ok {
				exists(fmt.Sprint(m["src"]))
				inArchive[fmt.Sprint(m["dst"])] = filepath.Dir(fmt.Sprint(m["src"]))
			} else {
				exists(fmt.Sprint(f))
			}
		}
	}
	contents := 0
	for _, n := range file.Nfpms {
		for _, c := range n.Contents {
			exists(c.Src)
			contents++
		}
	}
	for _, c := range file.Casks {
		for _, path := range c.Completions {
			exists(filepath.Join(inArchive[filepath.Dir(path)], filepath.Base(path)))
			contents++
		}
	}
	if contents < 10 || len(inArchive) == 0 {
		t.Errorf("found %d files of packages and %v of archives", contents, inArchive)
	}
}

func testCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Build           struct{ Context, Dockerfile string }
			ReadOnly        bool     `yaml:"read_only"`
			CapDrop         []string `yaml:"cap_drop"`
			StopGracePeriod string   `yaml:"stop_grace_period"`
			Environment     map[string]string
			Healthcheck     struct{ Test []string }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "../deploy/docker/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["redoubt"]
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !strings.Contains(s.Environment["REDOUBT_PASSWORD"], ":?") {
		t.Errorf("the service is %+v; want it read-only, without capabilities, and refused without a password", s)
	}
	if !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/usr/bin/redoubt", "health"}) {
		t.Errorf("the health check is %q; want the one that asks the back end", s.Healthcheck.Test)
	}
	readFile(t, filepath.Join("../deploy/docker", s.Build.Context, s.Build.Dockerfile)) // from the context
	d, err := time.ParseDuration(s.StopGracePeriod)
	if err != nil {
		t.Fatal(err)
	}
	outlastsDrain(t, "stop_grace_period", d)
}

// A values is what a user gives to the chart.
type values = map[string]any

// testChart renders the chart as helm does: with Go templates and the functions of sprig.
func testChart(t *testing.T, redoubt string) {
	// helm refuses values that the schema doesn't have, so it must have all.
	type schema struct {
		AdditionalProperties *bool
		Properties           map[string]schema
	}
	var described schema
	if err := json.Unmarshal([]byte(readFile(t, "../deploy/helm/redoubt/values.schema.json")), &described); err != nil {
		t.Fatal(err)
	}
	var defaults values
	if err := yaml.Unmarshal([]byte(readFile(t, "../deploy/helm/redoubt/values.yaml")), &defaults); err != nil {
		t.Fatal(err)
	}
	var compare func(path string, v values, s schema)
	compare = func(path string, v values, s schema) {
		for name := range s.Properties {
			if _, there := v[name]; !there && path+name != "global" {
				t.Errorf("values.schema.json has %s%s, and values.yaml does not", path, name)
			}
		}
		for name, value := range v {
			is, there := s.Properties[name]
			if !there {
				t.Errorf("values.yaml has %s%s, and values.schema.json does not", path, name)
			}
			if inner, ok := value.(values); ok && is.AdditionalProperties != nil {
				compare(path+name+".", inner, is)
			}
		}
	}
	compare("", defaults, described)
	secret := values{"password": values{"existingSecret": "mine", "key": "pw"}}
	for name, c := range map[string]struct {
		given values
		fails string
		kinds []string
	}{
		"existing secret": {secret, "", []string{"ConfigMap", "Service", "StatefulSet"}},
		"value":           {values{"password": values{"value": "s3cret: #"}}, "", []string{"ConfigMap", "Secret", "Service", "StatefulSet"}},
		"backend": {values{
			"password": secret["password"], "backend": values{"existingSecret": "db"}, "replicas": 3,
			"settings": values{"max-clients": 5, "log-format": "json", "http-host": "dash.example.com,d.example.com"},
		}, "", []string{"ConfigMap", "Service", "StatefulSet"}},
		"no password":    {nil, "set password.existingSecret", nil},
		"many of memory": {values{"password": secret["password"], "replicas": 2}, "replicas above 1 need", nil},
	} {
		t.Run(name, func(t *testing.T) {
			docs, notes, err := render("../deploy/helm/redoubt", c.given)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v; want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for kind := range docs {
				kinds = append(kinds, kind)
			}
			if slices.Sort(kinds); !slices.Equal(kinds, c.kinds) {
				t.Errorf("it makes %q; want %q", kinds, c.kinds)
			}
			checkPod(t, docs["StatefulSet"], name == "backend")
			host := "names in settings.http-host, and there are none yet."
			if name == "backend" {
				host = "names in settings.http-host: dash.example.com,d.example.com."
			}
			if !strings.Contains(notes, host) || !strings.Contains(notes, "port-forward svc/demo-redoubt 8080:8080") {
				t.Errorf("the notes are\n%s\nwant %q", notes, host)
			}
			data, _ := docs["ConfigMap"]["data"].(values)
			acceptsSettings(t, redoubt, fmt.Sprint(data["redoubt.yaml"]))
			if name == "value" && fmt.Sprint(docs["Secret"]["stringData"]) != "map[password:s3cret: #]" {
				t.Errorf("the secret is %v", docs["Secret"])
			}
		})
	}
}

func checkPod(t *testing.T, set values, hasBackend bool) {
	t.Helper()
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	type security struct {
		RunAsNonRoot, ReadOnlyRootFilesystem bool
		AllowPrivilegeEscalation             *bool
		RunAsUser                            int
		Capabilities                         struct{ Drop []string }
	}
	type probe struct {
		HTTPGet                                         struct{ Path, Port string }
		PeriodSeconds, TimeoutSeconds, FailureThreshold int
	}
	type variable struct {
		Name, Value string
		ValueFrom   struct{ SecretKeyRef struct{ Name, Key string } }
	}
	var s struct {
		Spec struct {
			VolumeClaimTemplates []any
			Template             struct {
				Spec struct {
					TerminationGracePeriodSeconds int
					EnableServiceLinks            *bool
					SecurityContext               security
					Containers                    []struct {
						Env                           []variable
						SecurityContext               security
						LivenessProbe, ReadinessProbe probe
						StartupProbe                  probe
						Lifecycle                     struct {
							PreStop struct{ Sleep struct{ Seconds int } }
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &s); err != nil || len(s.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	pod := s.Spec.Template.Spec
	c := pod.Containers[0]
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.RunAsUser == 0 || !c.SecurityContext.ReadOnlyRootFilesystem ||
		c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("the pod runs as %+v, %+v; want no root, a read-only root file system and no capabilities", pod.SecurityContext, c.SecurityContext)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Errorf("service links %v", pod.EnableServiceLinks)
	}
	// /readyz waits a second for the back end, which a restart doesn't heal.
	for path, probes := range map[string][]probe{"/livez": {c.LivenessProbe, c.StartupProbe}, "/readyz": {c.ReadinessProbe}} {
		for _, p := range probes {
			if p.HTTPGet.Path != path || p.HTTPGet.Port != "http" || p.TimeoutSeconds < 2 {
				t.Errorf("the probe is %+v; want %s of http, and 2 s", p, path)
			}
		}
	}
	// Only where other pods take the clients meanwhile.
	preStop := c.Lifecycle.PreStop.Sleep.Seconds
	if (preStop > 0) != hasBackend {
		t.Errorf("preStop sleeps for %d s with several replicas: %v", preStop, hasBackend)
	}
	outlastsDrain(t, "terminationGracePeriodSeconds", time.Duration(pod.TerminationGracePeriodSeconds-preStop)*time.Second)
	if start := c.StartupProbe; start.PeriodSeconds*start.FailureThreshold < 600 {
		t.Errorf("the startup probe is %+v; want ten minutes for the engine to read its log", start)
	}
	want := 1
	if hasBackend {
		want = 2
	}
	if len(c.Env) != want {
		t.Errorf("%d variables; want %d", len(c.Env), want)
	}
	for _, v := range c.Env {
		if ref := v.ValueFrom.SecretKeyRef; v.Value != "" || ref.Name == "" || ref.Key == "" {
			t.Errorf("variable %+v; want it from a secret", v)
		}
	}
	if (len(s.Spec.VolumeClaimTemplates) > 0) == hasBackend {
		t.Errorf("%d volumes with back end: %v", len(s.Spec.VolumeClaimTemplates), hasBackend)
	}
}

// render returns the objects of a chart by kind, and its notes.
func render(chart string, given values) (docs map[string]values, notes string, err error) {
	var meta struct{ Name, Version, AppVersion string }
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err == nil {
		var m values
		err = yaml.Unmarshal(text, &m)
		meta.Name, meta.Version, meta.AppVersion = fmt.Sprint(m["name"]), fmt.Sprint(m["version"]), fmt.Sprint(m["appVersion"])
	}
	if err != nil {
		return nil, "", err
	}
	var all values
	if text, err = os.ReadFile(filepath.Join(chart, "values.yaml")); err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, "", err
	}
	merge(all, given)

	set := template.New("").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	set.Funcs(template.FuncMap{
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := set.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
	})
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return nil, "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = set.New(meta.Name + "/templates/" + filepath.Base(file)).Parse(string(text))
		}
		if err != nil {
			return nil, "", err
		}
	}
	data := values{
		"Values": all, "Capabilities": values{"KubeVersion": values{"Version": "v1.30.0"}}, "Chart": meta, "Release": values{"Name": "demo", "Namespace": "apps", "Service": "Helm"},
		"Template": values{"BasePath": meta.Name + "/templates"},
	}
	docs = map[string]values{}
	for _, file := range files {
		var b bytes.Buffer
		if err := set.ExecuteTemplate(&b, meta.Name+"/templates/"+filepath.Base(file), data); err != nil {
			return nil, "", err
		}
		var doc values
		switch filepath.Base(file) {
		case "NOTES.txt":
			notes = b.String()
			continue
		case "_helpers.tpl":
			continue
		}
		if err := yaml.Unmarshal(b.Bytes(), &doc); err != nil {
			return nil, "", fmt.Errorf("%s: %w\n%s", file, err, b.String())
		}
		if doc != nil {
			docs[fmt.Sprint(doc["kind"])] = doc
		}
	}
	return docs, notes, nil
}

// merge sets in all what is given.
func merge(all, given values) {
	for k, v := range given {
		if below, ok := v.(values); ok {
			if into, ok := all[k].(values); ok {
				merge(into, below)
				continue
			}
		}
		all[k] = v
	}
}
