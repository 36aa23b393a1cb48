package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wcharczuk/go-chart/v2"

	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
)

// A curve is durations in order.
type curve struct {
	name  string
	sorts []time.Duration
}

// curves draws the cumulative distribution of durations, from 0.1 ms up on a logarithmic scale.
func curves(path, title string, all []curve) error {
	const left, top, width, height = 70., 40., 520., 380.
	s := &benchmarks.SVG{Width: 860, Height: 490}
	const from, to = -4., 1. // powers of ten, in s
	at := func(d time.Duration) float64 {
		return top + height*(1-(min(max(math.Log10(max(d.Seconds(), 1e-9)), from), to)-from)/(to-from))
	}
	s.Text(10, 20, "start", title)
	for e := from; e <= to; e++ {
		d := time.Duration(math.Pow(10, e) * float64(time.Second)).Round(time.Microsecond)
		s.Line(left, at(d), left+width, at(d))
		s.Text(left-6, at(d)+4, "end", d.String())
	}
	for p := 0; p <= 100; p += 25 {
		x := left + width*float64(p)/100
		s.Line(x, top, x, top+height)
		s.Text(x, top+height+16, "middle", fmt.Sprintf("%d%%", p))
	}
	s.Text(left+width, top+height+34, "end", "of the messages are at most so late")
	for i, c := range all {
		color := benchmarks.Palette[i%len(benchmarks.Palette)]
		var points strings.Builder
		for k, d := range c.sorts {
			_, _ = fmt.Fprintf(&points, "%.1f,%.1f ", left+width*float64(k+1)/float64(len(c.sorts)), at(d))
		}
		s.Add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.TrimSpace(points.String()), color)
		y := top + 20*float64(i) + 10
		early, _ := slices.BinarySearch(c.sorts, 0)
		label := c.name
		if early > 0 {
			label += fmt.Sprintf(", %.0f%% early", 100*float64(early)/float64(len(c.sorts)))
		}
		s.Key(left+width+15, y, color, label)
	}
	return s.WriteFile(path)
}

// plot draws the lateness into a file beside the raw file.
func (b *queueBench) plot(context.Context) error {
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
