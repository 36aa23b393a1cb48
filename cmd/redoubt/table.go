package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// A table aligns columns by their width on a terminal, where a Chinese character is two wide: text/tabwriter counts
// it as one. A cell ends with a tab, a row with a newline.
type table struct {
	out  io.Writer
	text bytes.Buffer
}

func newTable(out io.Writer) *table { return &table{out: out} }

// Write adds cells. The error is always nil.
func (t *table) Write(cells []byte) (int, error) { return t.text.Write(cells) }

// Flush prints the rows so far, and begins a new table.
func (t *table) Flush() error {
	const between = 2
	var widths []int
	rows := strings.SplitAfter(t.text.String(), "\n")
	for _, row := range rows {
		for i, cell := range aligned(row) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(cell)+between)
		}
	}
	t.text.Reset()
	for _, row := range rows {
		cells := aligned(row)
		for i, cell := range cells {
			t.text.WriteString(cell + strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)))
			row = row[len(cell)+1:]
		}
		t.text.WriteString(row)
	}
	_, err := t.text.WriteTo(t.out)
	return err
}

// aligned returns the cells of a row without the last, which no cell follows.
func aligned(row string) []string {
	cells := strings.Split(row, "\t")
	return cells[:len(cells)-1]
}
