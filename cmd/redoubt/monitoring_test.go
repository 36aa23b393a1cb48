//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v3"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A scrapeOf is what one kind of server exports.
type scrapeOf struct {
	kind     string
	families map[string]*dto.MetricFamily
}

// scrape reads /metrics as Prometheus does: in protobuf, which has native histograms.
func scrape(t *testing.T, s *serving, kind string) scrapeOf {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.http+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("/metrics of %s answers %s: %s", kind, resp.Status, body)
	}
	found := scrapeOf{kind, map[string]*dto.MetricFamily{}}
	for in := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)); ; {
		var f dto.MetricFamily
		err := in.Decode(&f)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found.families[f.GetName()] = &f
	}
}

// value returns a sample with these labels, written like queue=mail,state=ready.
func (s scrapeOf) value(t *testing.T, name, labels string) float64 {
	t.Helper()
	for _, m := range s.families[name].GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(has, ",") != labels {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		}
		return float64(m.Histogram.GetSampleCount())
	}
	t.Errorf("%s has no %s{%s}", s.kind, name, labels)
	return math.NaN()
}

// scrapes starts a server of each kind, uses it, and scrapes it.
func scrapes(t *testing.T) (all []scrapeOf) {
	t.Helper()
	one := func(kind, addr string, s *serving) scrapeOf {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		defer func() { _ = c.Close() }()
		for _, line := range []string{
			"SET k v", "GET k", "LOCK.ACQUIRE l 60000 ID a", "LOCK.ACQUIRE l 60000", "LOCK.ACQUIRE l 60000 BLOCK 1", "LOCK.EXTEND l b 60000",
			"SEM.ACQUIRE s 2 60000", "QUEUE.PUT mail x ID x", "QUEUE.PUT mail y", "QUEUE.PUT mail x ID x", "QUEUE.PUT mail z AFTER 1 x", "QUEUE.TAKE mail 1 60000", "STOCK.SET item 10",
			"LIMIT.TAKE api:1 1 1 3600000 1", "LIMIT.TAKE api:1 1 1 3600000 1", "SET rd:{pages:1}:cache x", "SET rd:{bad\xff}:queue x",
		} {
			var args []any
			for a := range strings.FieldsSeq(line) {
				args = append(args, a)
			}
			if err := c.Do(t.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
				t.Fatalf("%s: %s: %v", kind, line, err)
			}
		}
		var found scrapeOf
		eventually(t, "the state of names is read", func() bool {
			found = scrape(t, s, kind)
			return len(found.families["redoubt_stock_units"].GetMetric()) > 0 && len(found.families["redoubt_cache_entries"].GetMetric()) > 0
		})
		return found
	}
	ours := certtest.New(t)
	ours.Sign("server")
	s, plain, _, _ := startDoors(t, ours, "--dir", t.TempDir(), "--fsync", "always", "--maxmemory", "64mb")
	all = append(all, one("engine", plain, s))
	server := redistest.Start(t)
	s = startServe(t, "--backend", server.URL())
	all = append(all, one("redis", s.addr, s))
	two := redistest.Start(t)
	addr := freeAddr(t)
	s = startServing(t, "--pools", writePools(t, fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  hash_tag: \"{}\"\n  servers:\n   - %s:1 redis-1\n", addr, two.Addr())))
	all = append(all, one("pools", addr, s))
	cluster := redistest.StartCluster(t, 3, 0)
	s = startServe(t, "--backend", "redis-cluster://"+strings.Join(cluster.Addrs(), ","))
	return append(all, one("cluster", s.addr, s))
}

// TestMonitoring: every back end has the same metrics of commands, locks, limits, queues and stock; a linter accepts
// the names; docs/metrics.md explains each; and the dashboard and the alerts use no others.
func TestMonitoring(t *testing.T) {
	known := map[string]bool{"up": true}
	for _, s := range scrapes(t) {
		pool := map[string]string{"pools": "pool=alpha"}[s.kind]
		with := func(labels string) string { // sorted by name
			list := slices.DeleteFunc(append(strings.Split(labels, ","), pool), func(l string) bool { return l == "" })
			slices.Sort(list)
			return strings.Join(list, ",")
		}
		for sample, want := range map[string]float64{
			"redoubt_lock_acquired_total kind=lock":                             1,
			"redoubt_lock_refused_total kind=lock":                              2,
			"redoubt_lock_lost_total kind=lock":                                 1,
			"redoubt_lock_hand_over_seconds kind=lock":                          0,
			"redoubt_lock_acquired_total kind=semaphore":                        1,
			"redoubt_locks_held kind=lock":                                      1,
			"redoubt_locks_held kind=semaphore":                                 1,
			"redoubt_command_duration_seconds family=lock":                      4,
			"redoubt_command_wait_duration_seconds family=lock":                 1,
			"redoubt_clients_waiting family=lock":                               0,
			"redoubt_queue_messages queue=mail,state=ready":                     1,
			"redoubt_queue_messages queue=mail,state=running":                   1,
			"redoubt_queue_messages queue=mail,state=blocked":                   1,
			"redoubt_queue_put_total queue=mail":                                3,
			"redoubt_queue_taken_total queue=mail":                              1,
			"redoubt_queue_lateness_seconds queue=mail":                         1,
			"redoubt_stock_units item=item,state=available":                     10,
			"redoubt_limit_decisions_total command=limit.take,decision=allowed": 1,
			"redoubt_limit_decisions_total command=limit.take,decision=denied":  1,
			"redoubt_limit_policy_decisions_total policy=api,decision=denied":   1,
			"redoubt_names kind=stock":                                          1,
			"redoubt_extension_commands_total command=queue.put":                4,
			"redoubt_panics_total":                                              0,
			"redoubt_protocol_errors_total":                                     0,
			"redoubt_auth_failures_total":                                       0,
		} {
			name, labels, _ := strings.Cut(sample, " ")
			if got := s.value(t, name, with(labels)); got != want {
				t.Errorf("%s: %s is %v, want %v", s.kind, sample, got, want)
			}
		}
		if n := s.value(t, "redoubt_command_duration_seconds", with("family=redis")); n < 3 {
			t.Errorf("%s: %v commands of Redis were measured", s.kind, n)
		}
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(s.families)) {
			f := s.families[name]
			if !strings.HasPrefix(name, "redoubt_") {
				continue
			}
			known[name] = true
			if f.GetType() == dto.MetricType_HISTOGRAM {
				checkHistogram(t, f)
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					known[name+part] = true
				}
			}
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				t.Error(err)
			}
		}
		problems, err := promlint.New(strings.NewReader(text.String())).Lint()
		if err != nil {
			t.Errorf("%s: %v", s.kind, err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", s.kind, p.Metric, p.Text)
		}
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range known {
		if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); known[base] && !strings.Contains(string(page), base) {
			t.Errorf("docs/metrics.md lacks %s", base)
		}
	}
	exprs := append(dashboardExprs(t), alertExprs(t, string(page))...)
	for _, e := range exprs {
		for _, name := range regexp.MustCompile(`redoubt_[a-z0-9_]+`).FindAllString(e, -1) {
			if !known[name] {
				t.Errorf("no server has %s, which is in %s", name, e)
			}
		}
	}
	checkPromQL(t, exprs)
}

// checkHistogram checks that a histogram has classic buckets and native ones that agree.
func checkHistogram(t *testing.T, f *dto.MetricFamily) {
	t.Helper()
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		sum, n := int64(h.GetZeroCount()), int64(0) //nolint:gosec // few
		for _, delta := range h.GetPositiveDelta() {
			n += delta
			sum += n
		}
		if h.GetSchema() != 3 || len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 || uint64(sum) != h.GetSampleCount() { //nolint:gosec // not negative
			t.Errorf("%s has schema %d, %d classic buckets, %d spans, and %d of %d samples in native buckets",
				f.GetName(), h.GetSchema(), len(h.GetBucket()), len(h.GetPositiveSpan()), sum, h.GetSampleCount())
		}
	}
}

// dashboardExprs returns the queries of the Grafana dashboard, with its variables filled in.
func dashboardExprs(t *testing.T) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/redoubt.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$job", "redoubt", "$instance", ".*", "$__rate_interval", "1m")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			exprs = append(exprs, fill.Replace(q.Expr))
		}
	}
	if len(exprs) == 0 {
		t.Error("the dashboard has no queries")
	}
	return exprs
}

// alertExprs returns the expressions of the alerts. Each alert has a section in the page that its runbook_url names.
func alertExprs(t *testing.T, page string) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
			if !strings.HasSuffix(r.Annotations["runbook_url"], "docs/metrics.md#"+strings.ToLower(r.Alert)) || !strings.Contains(page, "\n### "+r.Alert+"\n") {
				t.Errorf("docs/metrics.md has no section %s, or its runbook_url is another", r.Alert)
			}
		}
	}
	return exprs
}

// checkPromQL lets promtool parse expressions, and the file of alerts.
func checkPromQL(t *testing.T, exprs []string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the syntax of the queries is not checked") // it is in Debian's package prometheus
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for i, e := range exprs {
		rules = append(rules, rule{fmt.Sprintf("checked:query%d", i), e})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file, "../../deploy/prometheus/alerts.yaml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestMetricsNames: --metrics-names bounds the labels, and with 0 /metrics asks the back end nothing.
func TestMetricsNames(t *testing.T) {
	for most, want := range map[string]int{"2": 2, "0": 0} {
		s := startServe(t, "--metrics-names", most)
		c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
		for i := range 5 {
			if err := c.Do(t.Context(), "STOCK.SET", fmt.Sprint("item", i), "10").Err(); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
		var items []*dto.Metric
		eventually(t, "the state of names is read", func() bool {
			items = scrape(t, s, "engine").families["redoubt_stock_units"].GetMetric()
			return len(items) > 0 || want == 0
		})
		if len(items) != 3*want { // three states each
			t.Errorf("--metrics-names %s: %d series of items, want %d", most, len(items), 3*want)
		}
	}
}
