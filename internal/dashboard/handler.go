package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard/assets"
)

// Options configure a [Handler].
type Options struct {
	// Sources returns the sources. It is called for each request; sources that were there before
	// keep their history.
	Sources func() []Source
	// Hosts are the names, without a port, under which people reach the handler, besides loopback names and
	// the address of the connection.
	Hosts []string
	// Exposed: other machines can reach the listener, so that every user needs a password.
	Exposed bool
	Version string
	// Logger gets every action and every refused password. Defaults to none.
	Logger *slog.Logger
}

// A Handler serves the dashboard. Make it with [New]; Close ends it.
type Handler struct {
	opts  Options
	hosts []string
	log   *slog.Logger
	cross *http.CrossOriginProtection
	began time.Time

	viewer chan struct{} // somebody looks
	stop   chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	sources map[string]*source
	wg      sync.WaitGroup // mu guards its Go
}

// New returns a Handler that begins to sample its sources.
func New(opts Options) (*Handler, error) {
	if opts.Sources == nil {
		return nil, errors.New("dashboard: Sources is nil")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{
		opts: opts, log: opts.Logger, cross: http.NewCrossOriginProtection(), began: time.Now(),
		sources: map[string]*source{}, viewer: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	var errs []error
	for _, host := range opts.Hosts {
		errs = append(errs, CheckHost(host))
		h.hosts = append(h.hosts, hostname(host))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	h.run(h.sample)
	return h, nil
}

// CheckHost returns an error for a host that no browser can ask for.
func CheckHost(host string) error {
	if hostname(host) == "" || strings.ContainsAny(host, "/ *?@") {
		return fmt.Errorf("dashboard: host is %q; want a name like dash.example.com", host)
	}
	return nil
}

// run starts a goroutine that Close waits for, or returns false after Close.
func (h *Handler) run(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.wg.Go(f)
	return true
}

// Close ends the sampling and waits for its last poll, two seconds at most. Requests that come later get
// 503. It may be called more than once.
func (h *Handler) Close() error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.stop)
	}
	h.mu.Unlock()
	h.wg.Wait()
	return nil
}

// current returns the sources in the order of the options.
func (h *Handler) current() []*source {
	now := h.opts.Sources()
	h.mu.Lock()
	defer h.mu.Unlock()
	list, known := make([]*source, 0, len(now)), make(map[string]*source, len(now))
	for _, s := range now {
		old := h.sources[s.Name]
		if old == nil || old.Client != s.Client || old.Kind != s.Kind || old.Of != s.Of {
			old = newSource(s, h.run)
		}
		known[s.Name] = old
		list = append(list, old)
	}
	h.sources = known
	return list
}

// types are the media types of assets. The system's own table may lack one.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".png": "image/png",
	"": "text/plain; charset=utf-8", ".ico": "image/x-icon", ".woff2": "font/woff2", ".md": "text/plain; charset=utf-8",
}

// An asset is a file of the page.
type asset struct {
	content []byte
	etag    string
}

var files = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(assets.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := assets.Files.ReadFile(name)
		sum := sha256.Sum256(content)
		all[name] = asset{content, `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic("dashboard: " + err.Error()) // the files are part of the program
	}
	return all
})

// Guard serves inner to users who may use the dashboard, and may run DEBUG on each source that it shows them.
func (h *Handler) Guard(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if err := h.mayDebug(r); err != nil {
			answer(w, err, false)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		inner.ServeHTTP(w, r)
	})
}

func (h *Handler) mayDebug(r *http.Request) error {
	if err := h.checkHost(r); err != nil {
		return err
	}
	if err := h.checkSite(r, true); err != nil {
		return err
	}
	sources, users, refused := h.admitted(r)
	if refused != nil {
		return refused
	}
	for i, u := range users {
		if !u.May("DEBUG") {
			return refuse(http.StatusForbidden, "the user has no permissions to run DEBUG on "+quoted(sources[i].Name))
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	api := strings.HasPrefix(name, "api/")
	if err := h.serve(w, r, name); err != nil {
		answer(w, err, api)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string) error {
	api := strings.HasPrefix(name, "api/")
	select {
	case <-h.stop:
		return refuse(http.StatusServiceUnavailable, "the dashboard is closed")
	default:
	}
	if err := h.checkHost(r); err != nil {
		return err
	}
	if err := h.checkSite(r, api); err != nil {
		return err
	}
	sources, users, refused := h.admitted(r)
	if refused != nil {
		return refused
	}
	switch action := name == "api/action"; {
	case action && r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "an action is a POST")
	case !action && r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		return refuse(http.StatusMethodNotAllowed, "only GET and HEAD are allowed here")
	}
	if r.URL.Path == "" { // the mount point without its slash
		h.redirect(w, r)
		return nil
	}
	if !api {
		return serveAsset(w, r, name)
	}
	w.Header().Set("Cache-Control", "no-store")
	h.noteViewer()
	req, err := h.request(r, sources, users)
	if err != nil {
		return err
	}
	var result any
	switch name {
	case "api/snapshot":
		result, err = h.snapshot(req)
	case "api/queue":
		result, err = h.messages(req)
	case "api/message":
		result, err = h.message(req)
	case "api/action":
		result, err = h.action(req)
	default:
		err = refuse(http.StatusNotFound, "there is no "+quoted(name))
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, result)
	return nil
}

// redirect sends the browser to the mount point with its slash, so that relative URLs work. The target is
// relative too: a proxy in front may have cut off a prefix.
func (h *Handler) redirect(w http.ResponseWriter, r *http.Request) {
	place, query, _ := strings.Cut(r.RequestURI, "?")
	target := path.Base(place) + "/"
	if query != "" {
		target += "?" + query
	}
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusMovedPermanently)
}

func serveAsset(w http.ResponseWriter, r *http.Request, name string) error {
	if name == "" {
		name = "index.html"
	}
	a, ok := files()[name]
	if !ok {
		return refuse(http.StatusNotFound, "there is no "+quoted(name))
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Header().Set("Cache-Control", "no-cache") // asked for anew each time, answered by 304
	w.Header().Set("ETag", a.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	if err := out.Encode(v); err != nil {
		b.Reset()
		status = http.StatusInternalServerError
		fmt.Fprintf(&b, "{\"ok\":false,\"error\":%q}\n", "the answer can't be written as JSON")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
