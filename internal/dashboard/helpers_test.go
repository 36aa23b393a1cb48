package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

func TestMain(m *testing.M) {
	dashboard.SetAnswerTime(time.Minute) // this machine may be busy
	goleak.VerifyTestMain(m)
}

// A spy is a Conn that counts commands by name, scripts as EVALSHA, and may fail.
type spy struct {
	redoubt.Conn

	mu    sync.Mutex
	count map[string]int
	fail  func(c redoubt.Cmd) error
}

func (s *spy) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	if err := s.saw(c); err != nil {
		return redoubt.Reply{Err: err}
	}
	return s.Conn.Do(ctx, c)
}

func (s *spy) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	var rest []redoubt.Cmd
	var at []int
	for i, c := range cs {
		if replies[i].Err = s.saw(c); replies[i].Err == nil {
			rest, at = append(rest, c), append(at, i)
		}
	}
	s.mu.Lock()
	s.count["pipeline"]++
	s.mu.Unlock()
	for i, r := range s.Conn.Pipeline(ctx, rest) {
		replies[at[i]] = r
	}
	return replies
}

func (s *spy) saw(c redoubt.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.Name
	if c.Script != nil {
		name = "EVALSHA"
	}
	s.count[name]++
	if s.fail != nil {
		return s.fail(c)
	}
	return nil
}

// counts returns the counts since the last call.
func (s *spy) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.count
	s.count = map[string]int{}
	return was
}

func (s *spy) failWith(fail func(c redoubt.Cmd) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// A page is a dashboard on an engine, and a browser.
type page struct {
	t      testing.TB
	conn   *spy
	client *redoubt.Client
	h      *dashboard.Handler
	server *httptest.Server
	log    await.Buffer
}

// open returns a page; change may change its options and its one source.
func open(t testing.TB, change func(o *dashboard.Options, s *dashboard.Source)) *page {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	p := &page{t: t, conn: &spy{Conn: e, count: map[string]int{}}}
	p.client = clienttest.New(t, p.conn, "")
	source := dashboard.Source{Name: "main", Kind: dashboard.KindEngine, Client: p.client, Users: dashboard.OneUser("default", "", true)}
	opts := dashboard.Options{Version: "v1", Logger: slog.New(slog.NewTextHandler(&p.log, nil))}
	if change != nil {
		change(&opts, &source)
	}
	if opts.Sources == nil {
		opts.Sources = func() []dashboard.Source { return []dashboard.Source{source} }
	}
	if p.h, err = dashboard.New(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.h.Close() })
	p.server = httptest.NewServer(p.h)
	t.Cleanup(p.server.Close)
	return p
}

// do sends a request; change may be nil. It follows no redirect.
func (p *page) do(method, path, body string, change func(r *http.Request)) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.server.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	client := *p.server.Client() // requests come from many goroutines
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(text)
}

// A shot is a snapshot as a browser reads it.
type shot struct {
	Version, Error, Source, View, Next, PanelError string
	Age, PollMs, Time                              int64
	User                                           struct {
		Name     string
		CanWrite bool
	}
	Sources []struct{ Name, Kind string }
	Scan    struct {
		Keys, Seen int64
		Done       bool
	}
	Counts   map[string]int64
	Overview map[string]any
	Rows     []map[string]any
	Series   map[string]struct {
		T []int64
		V []float64
	}
	Denials []struct {
		Name, Kind string
		Total      uint64
		T          []int64
		V          []float64
	}
}

// snap asks for a new snapshot.
func (p *page) snap(query string) shot {
	p.t.Helper()
	p.h.Again()
	return p.last(query)
}

// last asks for a snapshot, which may be as old as others may be.
func (p *page) last(query string) shot {
	p.t.Helper()
	var s shot
	p.get("/api/snapshot?"+query, &s)
	return s
}

// get asks for JSON.
func (p *page) get(path string, v any) {
	p.t.Helper()
	resp, text := p.do(http.MethodGet, path, "", nil)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %s", path, resp.Status, text)
	}
	decode(p.t, text, v)
}

func decode(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// row waits for a row with this name in a view.
func (p *page) row(view, name string) map[string]any {
	p.t.Helper()
	var found map[string]any
	await.Until(p.t, time.Minute, "a row "+name+" in "+view, func() bool {
		s := p.snap("view=" + view)
		if s.Error != "" || s.PanelError != "" {
			p.t.Fatalf("snapshot of %s: %q, %q", view, s.Error, s.PanelError)
		}
		for _, r := range s.Rows {
			if r["name"] == name {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// act orders something.
func (p *page) act(order map[string]any) (status int, answer map[string]any) {
	p.t.Helper()
	body, err := json.Marshal(order)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, text := p.do(http.MethodPost, "/api/action", string(body), nil)
	decode(p.t, text, &answer)
	return resp.StatusCode, answer
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
