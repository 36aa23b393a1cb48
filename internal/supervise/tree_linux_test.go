package supervise

import (
	"os"
	"slices"
	"testing"
)

func TestParseParent(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sleep) S 7 12 12 0 -1": 7,
		"12 (a b) R) S 7 12":        7, // a name may hold anything
		"12 ((sd-pam)) S 1":         1,
	} {
		if got, ok := parseParent([]byte(stat)); !ok || got != want {
			t.Errorf("parseParent(%q) = %d, %v; want %d", stat, got, ok, want)
		}
	}
	if got, ok := parentOf(os.Getpid()); !ok || got != os.Getppid() {
		t.Errorf("parentOf(self) = %d, %v; want %d", got, ok, os.Getppid())
	}
}

func FuzzParseParent(f *testing.F) {
	f.Add([]byte("12 (sleep) S 7 12 12 0 -1"))
	f.Add([]byte("12 (sleep) S"))
	f.Add([]byte(")) )"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if pid, ok := parseParent(stat); ok && pid < 0 {
			t.Fatalf("%q: pid %d", stat, pid)
		}
	})
}

func TestDescendants(t *testing.T) {
	// 10 is the parent of 14, 14 of 13, 13 of 12, and 12 of 11; 20 is a child of 1. 30 and 31 are each other's
	// parents, and so are 10 and 14: a snapshot may show that while processes start and end.
	parents := map[int]int{1: 0, 10: 14, 14: 10, 13: 14, 12: 13, 11: 12, 20: 1, 30: 31, 31: 30}
	if got, want := descendants(parents, 10), []int{14, 13, 12, 11}; !slices.Equal(got, want) {
		t.Errorf("descendants = %v; want %v, parents first", got, want)
	}
}
