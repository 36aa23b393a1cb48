package benchmarks

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Palette are the colours of contenders.
var Palette = []string{"#c0392b", "#2980b9", "#27ae60", "#8e44ad", "#d68910", "#16a085", "#2c3e50", "#7f8c8d", "#d81b60", "#5d4037"}

// An SVG collects the parts of a drawing.
type SVG struct {
	Width, Height int
	parts         strings.Builder
}

// Add adds an element.
func (s *SVG) Add(format string, args ...any) { fmt.Fprintf(&s.parts, format+"\n", args...) }

// Text writes a text whose start, middle or end is at x.
func (s *SVG) Text(x, y float64, anchor, text string) {
	s.Add(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text))
}

// Line draws a thin line.
func (s *SVG) Line(x1, y1, x2, y2 float64) { s.Stroke(x1, y1, x2, y2, "#ddd", 1) }

// Stroke draws a line of a colour and a width.
func (s *SVG) Stroke(x1, y1, x2, y2 float64, color string, width float64) {
	s.Add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`, x1, y1, x2, y2, color, width)
}

// Key is a line of the legend.
func (s *SVG) Key(x, y float64, color, text string) {
	s.Add(`<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s"/>`, x, y, color)
	s.Text(x+17, y+11, "start", text)
}

// Source returns the whole drawing.
func (s *SVG) Source() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, s.Width, s.Height, s.parts.String())
}

// WriteFile writes the drawing into a file.
func (s *SVG) WriteFile(path string) error {
	return os.WriteFile(path, []byte(s.Source()), 0o644) //nolint:gosec // for everybody
}

// A scale is a logarithmic axis between two figures.
type scale struct{ from, to, at, length float64 }

// newScale has a length in pixels, and whole powers of ten at its ends if the figures need more than one.
func newScale(least, most, at, length float64) scale {
	from, to := math.Log10(least), math.Log10(most)
	if to-from > 1 {
		from, to = math.Floor(from), math.Ceil(to)
	}
	if to-from < 0.05 {
		from, to = from-0.3, to+0.3
	}
	return scale{from, to, at, length}
}

func (s scale) pixel(f float64) float64 {
	return s.at + s.length*(min(max(math.Log10(f), s.from), s.to)-s.from)/(s.to-s.from)
}

// ticks are 1, 2 and 5 times powers of ten on a short scale, and the powers alone on a long one.
func (s scale) ticks() (all []float64) {
	steps := []float64{1, 2, 5}
	if s.to-s.from > 3 {
		steps = steps[:1]
	}
	for e := math.Floor(s.from); e <= s.to; e++ {
		for _, step := range steps {
			if f := step * math.Pow(10, e); math.Log10(f) > s.from-1e-9 && math.Log10(f) < s.to+1e-9 {
				all = append(all, f)
			}
		}
	}
	return all
}

// tickText writes a figure of an axis.
func tickText(f float64) string {
	if f < 1 {
		return fmt.Sprintf("%.3g", f)
	}
	return thousands(f)
}

// ratiosPlot draws a row for each line, with a dot for each peer: the ratio, the spread of the ratios within a
// round, and a line at 1.
func ratiosPlot(s section, lines []line) string {
	type dot struct {
		peer           string
		mid, low, high float64
		unknown        bool
	}
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return len(l.peers) == 0 })
	var peers []string
	rows := make([][]dot, len(lines))
	least, most, height, longest := 0.8, 1.25, 0., 0
	const top = 46.
	label := func(l line) string {
		t := l.ours.Title
		if l.ours.Size > 0 {
			t += ", " + thousands(float64(l.ours.Size)) + " " + s.size.en
		}
		if l.ours.Callers > 0 {
			t += ", ×" + thousands(float64(l.ours.Callers))
		}
		return t
	}
	for i, l := range lines {
		longest = max(longest, len([]rune(label(l))))
		for _, p := range l.peers {
			d := dot{peer: p.Contender, mid: ratio(l.ours, p)}
			d.low, d.high = ratioSpread(l.ours, p)
			if math.IsInf(d.mid, 0) || math.IsNaN(d.mid) || d.mid <= 0 {
				d.unknown = true
			} else {
				d.low, d.high = min(d.low, d.mid), max(d.high, d.mid)
				if math.IsInf(d.high, 0) || math.IsNaN(d.high) {
					d.high = d.mid
				}
				if d.low <= 0 || math.IsNaN(d.low) {
					d.low = d.mid
				}
				least, most = min(least, d.low), max(most, d.high)
			}
			if !slices.Contains(peers, d.peer) {
				peers = append(peers, d.peer)
			}
			rows[i] = append(rows[i], d)
		}
		height += rowHeight(len(l.peers))
	}
	left := 20 + 6.6*float64(longest)
	const width = 420.
	x := newScale(least, most, left, width)
	legend := left + width + 25
	bottom := top + height
	out := &SVG{Width: int(legend) + 290, Height: int(max(bottom+50, top+20*float64(len(peers))+20))}
	out.Text(10, 20, "start", s.title.en+": Redoubt to each peer; right of 1 Redoubt is better; × tells the callers")
	for _, t := range x.ticks() {
		out.Line(x.pixel(t), top, x.pixel(t), bottom)
		out.Text(x.pixel(t), bottom+16, "middle", tickText(t))
	}
	out.Stroke(x.pixel(1), top-6, x.pixel(1), bottom+4, "#000", 1.5)
	out.Text(x.pixel(1)-6, top-10, "end", "behind")
	out.Text(x.pixel(1)+6, top-10, "start", "ahead")
	y := top
	for i, l := range lines {
		h := rowHeight(len(l.peers))
		out.Text(left-8, y+h/2+4, "end", label(l))
		for k, d := range rows[i] {
			at := y + h/2 + dotHeight*(float64(k)-float64(len(rows[i])-1)/2)
			if d.unknown {
				continue
			}
			color := Palette[slices.Index(peers, d.peer)%len(Palette)]
			out.Stroke(x.pixel(d.low), at, x.pixel(d.high), at, color, 2)
			out.Add(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.pixel(d.mid), at, color)
		}
		y += h
		out.Line(left, y, left+width, y)
	}
	for i, p := range peers {
		out.Key(legend, top+20*float64(i), Palette[i%len(Palette)], p)
	}
	return out.Source()
}

// dotHeight is the distance between the dots of a row.
const dotHeight = 7.

// rowHeight leaves room for the dots of all peers and for the text.
func rowHeight(peers int) float64 { return max(16, dotHeight*float64(peers)+6) }

// curvesPlot draws our figures as callers, keys or shards grow, on logarithmic axes: a colour for each operation, and
// dashes for our other ways.
func curvesPlot(s section, lines []line) string {
	type curve struct {
		name, dashes string
		color        int
		xs, ys       []float64
	}
	var curves []*curve
	var titles []string
	dashes := []string{"", "6 3", "2 3"}
	leastX, mostX, leastY, mostY := math.Inf(1), 0., math.Inf(1), 0.
	add := func(title string, r Record, way int) {
		name := title + ", " + r.Contender
		i := slices.IndexFunc(curves, func(c *curve) bool { return c.name == name })
		if i < 0 {
			if !slices.Contains(titles, title) {
				titles = append(titles, title)
			}
			i = len(curves)
			curves = append(curves, &curve{name: name, dashes: dashes[way%len(dashes)], color: slices.Index(titles, title)})
		}
		x, y := float64(r.Size), r.Median()
		if s.curves == byCallers {
			x = float64(r.Callers)
		}
		if x > 0 && y > 0 {
			curves[i].xs, curves[i].ys = append(curves[i].xs, x), append(curves[i].ys, y)
			leastX, mostX, leastY, mostY = min(leastX, x), max(mostX, x), min(leastY, y), max(mostY, y)
		}
	}
	for _, l := range lines {
		add(l.ours.Title, l.ours, 0)
		for i, r := range l.own {
			add(l.ours.Title, r, i+1)
		}
	}
	const left, top, width, height = 90., 40., 520., 380.
	out := &SVG{Width: 960, Height: max(490, 60+20*len(curves))}
	word := s.size.en
	if s.curves == byCallers {
		word = "callers"
	}
	out.Text(10, 20, "start", fmt.Sprintf("%s: %s by %s", s.title.en, lines[0].ours.Unit, word))
	if mostX == 0 { // nothing was done
		return out.Source()
	}
	x, y := newScale(leastX, mostX, left, width), newScale(leastY, mostY, top+height, -height)
	for _, t := range x.ticks() {
		out.Line(x.pixel(t), top, x.pixel(t), top+height)
		out.Text(x.pixel(t), top+height+16, "middle", tickText(t))
	}
	for _, t := range y.ticks() {
		out.Line(left, y.pixel(t), left+width, y.pixel(t))
		out.Text(left-6, y.pixel(t)+4, "end", tickText(t))
	}
	out.Text(left+width, top+height+34, "end", word)
	for i, c := range curves {
		color := Palette[c.color%len(Palette)]
		var points strings.Builder
		for k := range c.xs {
			fmt.Fprintf(&points, "%.1f,%.1f ", x.pixel(c.xs[k]), y.pixel(c.ys[k]))
			out.Add(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.pixel(c.xs[k]), y.pixel(c.ys[k]), color)
		}
		out.Add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`, strings.TrimSpace(points.String()), color, c.dashes)
		at := top + 20*float64(i) + 10
		out.Add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`, left+width+15, at, left+width+40, at, color, c.dashes)
		out.Text(left+width+46, at+4, "start", c.name)
	}
	return out.Source()
}
