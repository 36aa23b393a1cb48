package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestTableIsAligned: columns begin at the same place of a terminal, whatever the script of a name.
func TestTableIsAligned(t *testing.T) {
	var out strings.Builder
	table := newTable(&out)
	_, _ = fmt.Fprintln(table, "NAME\tKEYS\tHOLDER")
	_, _ = fmt.Fprintf(table, "%s\t%d\t%s\n", "报表:每日", 7, "a")
	_, _ = fmt.Fprintf(table, "%s\t%d\t%s\n", "reports:daily", 12, "报表")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "NAME           KEYS  HOLDER\n" +
		"报表:每日      7     a\n" +
		"reports:daily  12    报表\n"
	if out.String() != want {
		t.Errorf("the table is\n%swant\n%s", out.String(), want)
	}
}
