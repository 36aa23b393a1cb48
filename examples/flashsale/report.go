package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A board shows the results while the sales run: on the page and in a line on stderr.
type board struct {
	terminal bool
	mu       sync.Mutex
	all      []result // guarded by mu
	next     time.Time
}

func newBoard(o options) *board {
	b := &board{}
	for _, s := range o.steps {
		b.all = append(b.all, result{step: s, Bottles: int64(o.bottles), Buyers: int64(o.buyers)})
	}
	info, err := os.Stderr.Stat()
	b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	return b
}

func (b *board) update(r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.all {
		if b.all[i].Name == r.Name {
			b.all[i] = r
		}
	}
	switch {
	case b.terminal:
		fmt.Fprint(os.Stderr, "\r\x1b[K", r.status())
	case !r.Running || time.Now().After(b.next):
		b.next = time.Now().Add(5 * time.Second)
		fmt.Fprintln(os.Stderr, r.status())
	}
}

// endLine leaves the last line of a sale on the terminal.
func (b *board) endLine() {
	if b.terminal {
		fmt.Fprintln(os.Stderr)
	}
}

func (b *board) results() []result {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]result(nil), b.all...)
}

//go:embed page.html
var page []byte

// serve serves the live page until end is called.
func (b *board) serve(ctx context.Context, address string) (url string, end func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page) // the browser may be gone
	})
	mux.HandleFunc("GET /results", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(b.results()) // the browser may be gone
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }() // ends with srv
	return "http://" + l.Addr().String() + "/", func() { _ = srv.Close() }, nil
}

// table returns the results as a table of Markdown.
func table(all []result) string {
	rows := [][]string{{"step", "sold", "oversold", "left", "twice", "refused", "errors", "p50", "p99", "last sale", ""}}
	for _, r := range all {
		note := ""
		if r.Stuck {
			note = "stuck"
		}
		rows = append(rows, []string{
			r.Title, count(r.Sold), count(r.Oversold), count(r.Left), count(r.Twice), count(r.Refused), count(r.Errors),
			r.P50.String(), r.P99.String(), r.Took.String(), note,
		})
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			if i == 0 || i == len(row)-1 {
				fmt.Fprintf(&b, "| %-*s ", width[i], cell)
			} else {
				fmt.Fprintf(&b, "| %*s ", width[i], cell)
			}
		}
		b.WriteString("|\n")
	}
	line(rows[0])
	for i := range width {
		right := ":"
		if i == 0 || i == len(width)-1 {
			right = "-"
		}
		b.WriteString("|" + strings.Repeat("-", width[i]+1) + right)
	}
	b.WriteString("|\n")
	for _, row := range rows[1:] {
		line(row)
	}
	return b.String()
}

// count writes a number as 20,000.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (m milliseconds) String() string {
	switch {
	case m >= 10_000:
		return fmt.Sprintf("%.0f s", m/1000)
	case m >= 1000:
		return fmt.Sprintf("%.1f s", m/1000)
	case m >= 10:
		return fmt.Sprintf("%.0f ms", m)
	default:
		return fmt.Sprintf("%.1f ms", m)
	}
}

// drawing draws the results as SVG: a bar for each step, on a logarithmic scale. Its colours follow the
// reader's dark or light mode.
func drawing(all []result) []byte {
	const left, right, top, row = 270., 620., 64., 46.
	most, bottles := 10., 1.
	for _, r := range all {
		most, bottles = max(most, float64(r.Sold)), max(bottles, float64(r.Bottles))
	}
	at := func(n float64) float64 { return left + (right-left)*math.Log10(max(1, n))/math.Log10(most) }
	bottom := top + row*float64(len(all))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 %[1]d" width="860" height="%[1]d" role="img" font-family="system-ui, sans-serif" font-size="14">
<title>Bottles sold by each step</title>
<style>
text { fill: #1f2328 } .quiet { fill: #59636e; font-size: 12px } .wrong { fill: #b42318 }
.page { fill: #ffffff } .sold { fill: #2e7d4f } .over { fill: #d1453b } .line { stroke: #1f2328; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9aa5b1 } .wrong { fill: #ff8b80 }
.page { fill: #0d1117 } .sold { fill: #4fae78 } .over { fill: #e5635a } .line { stroke: #e6edf3 }
}
</style>
<rect class="page" width="860" height="%[1]d"/>
`, int(bottom)+24)
	text := func(x, y float64, class, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(s))
	}
	if len(all) > 0 {
		text(14, 24, "", "start", fmt.Sprintf("%s bottles, %s buyers: how many were sold", count(all[0].Bottles), count(all[0].Buyers)))
	}
	text(at(bottles), top-10, "quiet", "middle", count(int64(bottles))+" bottles")
	text(right, top-10, "quiet", "end", "logarithmic scale")
	for i, r := range all {
		y := top + row*float64(i)
		text(14, y+19, "", "start", r.Title)
		good := at(float64(r.Sold - max(0, r.Oversold)))
		fmt.Fprintf(&b, `<rect class="sold" x="%.1f" y="%.0f" width="%.1f" height="20"/>`+"\n", left, y+4, max(1, good-left))
		class := ""
		if r.Oversold > 0 {
			class = "wrong"
			fmt.Fprintf(&b, `<rect class="over" x="%.1f" y="%.0f" width="%.1f" height="20"/>`+"\n", good, y+4, max(2, at(float64(r.Sold))-good))
		}
		label := count(r.Sold) + " sold, " + count(r.Oversold) + " too many"
		if r.Stuck {
			class, label = "wrong", label+"; stuck"
		}
		text(right+14, y+19, class, "start", label)
		text(right+14, y+35, "quiet", "start", "last sale after "+r.Took.String()+", p99 "+r.P99.String())
	}
	fmt.Fprintf(&b, `<line class="line" x1="%.1[1]f" y1="%.0[2]f" x2="%.1[1]f" y2="%.0[3]f"/>`+"\n</svg>\n", at(bottles), top-4, bottom)
	return []byte(b.String())
}
