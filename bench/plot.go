package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wcharczuk/go-chart/v2"
)

// A bar is a bar of a group in a bar chart.
type bar struct {
	group, name string
	value       float64
}

// A curve is durations in order.
type curve struct {
	name  string
	sorts []time.Duration
}

var palette = []string{"#c0392b", "#2980b9", "#7f8c8d", "#27ae60", "#8e44ad", "#d68910", "#16a085", "#2c3e50"}

// svg collects the parts of a drawing.
type svg struct {
	strings.Builder
	width, height int
}

func (s *svg) text(x, y float64, anchor, text string) {
	_, _ = fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text))
}

func (s *svg) line(x1, y1, x2, y2 float64) {
	_, _ = fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
}

func (s *svg) write(path string) error {
	out := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, s.width, s.height, s.String())
	return os.WriteFile(path, []byte(out), 0o644) //nolint:gosec // for everybody
}

// bars draws groups of bars, on a logarithmic scale: each step is ten times.
func bars(path, title, unit string, all []bar) error {
	var groups, names []string
	for _, b := range all {
		if !slices.Contains(groups, b.group) {
			groups = append(groups, b.group)
		}
		if !slices.Contains(names, b.name) {
			names = append(names, b.name)
		}
	}
	const left, top, height, width = 190., 40., 16., 520.
	s := &svg{width: 860, height: int(top) + len(groups)*(len(names)*int(height)+14) + 50}
	least, most := math.Inf(1), 0.
	for _, b := range all {
		least, most = min(least, b.value), max(most, b.value)
	}
	from, to := math.Floor(math.Log10(least)), math.Log10(most)
	at := func(v float64) float64 { return left + width*(math.Log10(v)-from)/(to-from) }
	s.text(10, 20, "start", title)
	bottom := float64(s.height) - 40
	for e := from; e <= to; e++ {
		s.line(at(math.Pow(10, e)), top, at(math.Pow(10, e)), bottom)
		s.text(at(math.Pow(10, e)), bottom+16, "middle", fmt.Sprintf("%.0f", math.Pow(10, e)))
	}
	s.text(left+width, bottom+32, "end", unit)
	y := top
	for _, g := range groups {
		s.text(10, y+height-4, "start", g)
		for _, b := range all {
			if b.group != g {
				continue
			}
			i := slices.Index(names, b.name)
			_, _ = fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", left, y+1, max(1, at(b.value)-left), height-2, palette[i%len(palette)])
			s.text(at(b.value)+5, y+height-4, "start", fmt.Sprintf("%s %.0f", b.name, b.value))
			y += height
		}
		y += 14
	}
	return s.write(path)
}

// curves draws the cumulative distribution of durations, from 0.1 ms up on a logarithmic scale.
func curves(path, title string, all []curve) error {
	const left, top, width, height = 70., 40., 520., 380.
	s := &svg{width: 860, height: 490}
	const from, to = -4., 1. // powers of ten, in s
	at := func(d time.Duration) float64 {
		return top + height*(1-(min(max(math.Log10(max(d.Seconds(), 1e-9)), from), to)-from)/(to-from))
	}
	s.text(10, 20, "start", title)
	for e := from; e <= to; e++ {
		d := time.Duration(math.Pow(10, e) * float64(time.Second)).Round(time.Microsecond)
		s.line(left, at(d), left+width, at(d))
		s.text(left-6, at(d)+4, "end", d.String())
	}
	for p := 0; p <= 100; p += 25 {
		x := left + width*float64(p)/100
		s.line(x, top, x, top+height)
		s.text(x, top+height+16, "middle", fmt.Sprintf("%d%%", p))
	}
	s.text(left+width, top+height+34, "end", "of the messages are at most so late")
	for i, c := range all {
		color := palette[i%len(palette)]
		var points strings.Builder
		for k, d := range c.sorts {
			_, _ = fmt.Fprintf(&points, "%.1f,%.1f ", left+width*float64(k+1)/float64(len(c.sorts)), at(d))
		}
		_, _ = fmt.Fprintf(s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(points.String()), color)
		y := top + 20*float64(i) + 10
		_, _ = fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s"/>`+"\n", left+width+15, y, color)
		early, _ := slices.BinarySearch(c.sorts, 0)
		label := c.name
		if early > 0 {
			label += fmt.Sprintf(", %.0f%% early", 100*float64(early)/float64(len(c.sorts)))
		}
		s.text(left+width+32, y+11, "start", label)
	}
	return s.write(path)
}

// plot draws the results into a file beside the raw file.
func (b *queueBench) plot() error {
	if err := bars(filepath.Join(b.dir, "queue-throughput.svg"), "Messages each second; each line of the scale is ten times the one before", "messages/s", b.throughput); err != nil {
		return err
	}
	return curves(filepath.Join(b.dir, "queue-lateness.svg"), fmt.Sprintf("Time from when a message is due to its handler, %d messages over %v", lateMessages, lateWindow), b.late)
}

// drawSVG draws a chart.
func drawSVG(path string, graph chart.Chart) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(graph.Render(chart.SVG, file), file.Close())
}
