package dashboard

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const maxQuery = 256 // bytes of a search

// A request is what a browser asks for.
type request struct {
	ctx     context.Context //nolint:containedctx // of the one HTTP request that this is
	r       *http.Request
	source  *source
	user    User
	sources []*source // that the user may look at
	users   []User    // of each of them
}

// request finds the source that r names, or the first one.
func (h *Handler) request(r *http.Request, sources []*source, users []User) (*request, error) {
	at := 0
	if want := r.URL.Query().Get("source"); want != "" {
		if at = slices.IndexFunc(sources, func(s *source) bool { return s.Name == want }); at < 0 {
			return nil, refuse(http.StatusNotFound, "there is no source "+quoted(want)+" that this user may look at")
		}
	}
	return &request{ctx: r.Context(), r: r, source: sources[at], user: users[at], sources: sources, users: users}, nil
}

// A sourceName is how a snapshot lists a source.
type sourceName struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	URL  string `json:"url,omitempty"`
}

// A snapshot is everything that the visible view of a browser needs.
type snapshot struct {
	Version string       `json:"version"`
	Time    int64        `json:"time"`
	PollMs  int64        `json:"pollMs"`
	Age     int64        `json:"age"`
	Error   string       `json:"error"`
	Sources []sourceName `json:"sources"`
	Source  string       `json:"source"`
	User    struct {
		Name     string `json:"name"`
		CanWrite bool   `json:"canWrite"`
	} `json:"user"`
	Scan     scanState          `json:"scan"`
	Counts   map[string]int64   `json:"counts"`
	Overview map[string]any     `json:"overview"`
	View     string             `json:"view"`
	Rows     []any              `json:"rows"`
	Next     string             `json:"next"`
	Panel    string             `json:"panelError"`
	Series   map[string]*series `json:"series"`
	Denials  []deniedSeries     `json:"denials,omitempty"` // of the view of limits
}

// page reads what a snapshot is to show, and the range of its charts.
func (req *request) page() (p pageOfView, span string, err error) {
	query := req.r.URL.Query()
	p = pageOfView{view: view(query.Get("view")), q: strings.ToLower(query.Get("q")), page: query.Get("page")}
	if p.view == "" {
		p.view = viewOverview
	}
	v, ok := views[p.view]
	if !ok {
		return p, "", refuse(http.StatusBadRequest, "there is no view "+quoted(string(p.view))+"; want "+viewNames(func(viewOf) bool { return true }))
	}
	if span = query.Get("range"); span == "" {
		span = "minute"
	}
	if _, ok := ranges[span]; !ok {
		return p, "", refuse(http.StatusBadRequest, "range is "+quoted(span)+"; want minute, hour or day")
	}
	if len(p.q) > maxQuery {
		return p, "", refuse(http.StatusBadRequest, "q has "+strconv.Itoa(len(p.q))+" bytes; want at most "+strconv.Itoa(maxQuery))
	}
	if _, _, err := cursor(p.view, p.page); err != nil {
		return p, "", err
	}
	if r := query.Get("ref"); r != "" {
		switch {
		case v.kinds == nil:
			return p, "", refuse(http.StatusBadRequest, "ref names a row of the views "+viewNames(func(v viewOf) bool { return v.kinds != nil })+", and view is "+string(p.view))
		case p.q != "" || p.page != "":
			return p, "", refuse(http.StatusBadRequest, "ref is of one name: leave q and page out")
		}
		if p.name, err = named(r, ""); err != nil {
			return p, "", err
		}
	}
	return p, span, nil
}

// snapshot answers api/snapshot.
func (h *Handler) snapshot(req *request) (any, error) {
	began := time.Now()
	page, span, err := req.page()
	if err != nil {
		return nil, err
	}
	s := req.source
	s.looked.Store(began.UnixNano())
	// Other browsers get what this request reads, so it goes on when this browser has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.ctx), answerTime)
	defer cancel()
	data := s.poll(ctx)

	out := snapshot{Version: h.opts.Version, Source: s.Name, View: string(page.view), Counts: map[string]int64{}, Rows: []any{}}
	for _, o := range req.sources {
		out.Sources = append(out.Sources, sourceName{o.Name, o.Kind, o.URL})
	}
	out.User.Name, out.User.CanWrite = req.user.Name(), req.user.Writes()
	taken := data.at
	if data.err != nil {
		out.Error = data.err.Error()
	}
	if s.names != nil {
		out.Scan, out.Counts = s.names.state()
	}
	l := req.read(ctx, page, data.info)
	if l.limits != nil {
		out.Counts[countWords[kindThrottle]] = int64(len(l.limits().Keys))
	}
	if s.Filters != nil {
		out.Counts[countWords[kindChain]] = int64(len(s.Filters()))
	}
	if page.view == viewLimits {
		out.Denials = s.denials.series(span, func(of limitName) bool {
			return strings.Contains(strings.ToLower(of.name), page.q) && l.may(of.kind, of.name)
		})
	}
	if req.user.May("INFO") {
		out.Overview, out.Series = h.overview(s, data.info), s.history.series(span)
	}
	p := s.panel(panelKey{req.user.Name(), page}, l.rows)
	if p.rows != nil {
		out.Rows, out.Next = p.rows, p.next
	}
	switch {
	case p.down:
		if out.Error = p.err; !p.at.IsZero() && p.at.Before(taken) {
			taken = p.at
		}
	case p.err != "":
		out.Panel = p.err
	default:
		out.Panel = data.refused
	}
	if out.Error != "" && !taken.IsZero() {
		out.Age = max(1, time.Since(taken).Milliseconds())
	}
	out.Time = time.Now().UnixMilli()
	took := time.Since(began)
	out.PollMs = min(max(pollEvery, 10*took), pollMost).Milliseconds()
	return out, nil
}

// overview returns the numbers of a source as a whole. A number that nobody knows is null.
func (h *Handler) overview(s *source, i info) map[string]any {
	o := map[string]any{
		"clients": i.orNil("connected_clients"), "memory": i.orNil("used_memory"), "maxMemory": i.orNil("maxmemory"),
		"keys": nil, "uptimeMs": nil, "commandsPerSecond": nil, "hitsPerSecond": nil, "missesPerSecond": nil, "backend": i["redis_version"],
	}
	if len(i) > 0 {
		o["keys"] = i.int("keys")
	}
	if up, err := strconv.ParseInt(i["uptime_in_seconds"], 10, 64); err == nil {
		o["uptimeMs"] = up * 1000
	}
	if s.Counts != nil {
		c := s.Counts()
		o["clients"] = c.Clients
		if !c.Started.IsZero() {
			o["uptimeMs"] = time.Since(c.Started).Milliseconds()
		}
	}
	for name, of := range map[string]string{"commandsPerSecond": "commands", "hitsPerSecond": "hits", "missesPerSecond": "misses", "deniedPerSecond": "denied", "allowedPerSecond": "allowed"} {
		if v, ok := s.history.latest(of); ok {
			o[name] = v
		}
	}
	return o
}

// printable quotes a name that would garble the page, as the command line does.
func printable(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// quoted is for errors: it shortens a text that a client sent.
func quoted(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strconv.Quote(s)
}

// ref returns a name in letters, digits, - and _. Requests name things by it, since JSON and URLs can't hold
// every name.
func ref(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// named returns the name that a request gives, as ref or as name.
func named(ref, name string) (string, error) {
	if ref == "" {
		if name == "" {
			return "", refuse(http.StatusBadRequest, "neither ref nor name is given")
		}
		return name, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(ref)
	if err != nil || len(b) == 0 {
		return "", refuse(http.StatusBadRequest, "ref is "+quoted(ref)+"; want that of a row")
	}
	return string(b), nil
}
