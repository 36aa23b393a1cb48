package lua

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record the replies of a real redis-server")

// Scripts of the corpus run with these.
var (
	corpusKeys = []string{"k1", "k2"}
	corpusArgs = []string{"10", "x y", "", "3.5"}
)

type corpusFile struct {
	path    string
	scripts []string
	want    []string
}

// readCorpus reads testdata/corpus: in a .txt scripts divided by lines of
// ====, in the .golden beside it one quoted reply of Redis 7.0.15 a line.
// A topic that begins with resp3 is run for a RESP3 client.
func readCorpus(t testing.TB) []corpusFile {
	t.Helper()
	paths, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no corpus", err)
	}
	var files []corpusFile
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := corpusFile{path: path}
		for s := range strings.SplitSeq(string(b), "\n====\n") {
			f.scripts = append(f.scripts, strings.TrimSuffix(s, "\n"))
		}
		if g, err := os.ReadFile(strings.TrimSuffix(path, ".txt") + ".golden"); err == nil {
			for line := range strings.SplitSeq(strings.TrimSpace(string(g)), "\n") {
				s, err := strconv.Unquote(line)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				f.want = append(f.want, s)
			}
		}
		files = append(files, f)
	}
	return files
}

func (f *corpusFile) name() string {
	return strings.TrimSuffix(filepath.Base(f.path), ".txt")
}

// TestCorpus holds that each script's reply is Redis' own, byte for byte.
func TestCorpus(t *testing.T) {
	if *update {
		record(t)
	}
	rt := newTestRuntime(t, Options{})
	for _, f := range readCorpus(t) {
		t.Run(f.name(), func(t *testing.T) {
			if len(f.want) != len(f.scripts) {
				t.Fatalf("%d scripts, %d recorded replies: run with -update", len(f.scripts), len(f.want))
			}
			for i, src := range f.scripts {
				got := eval(t, rt, src, strings.HasPrefix(f.name(), "resp3"), corpusKeys, corpusArgs)
				if got != f.want[i] {
					t.Errorf("script %d:\n%s\n got %q\nwant %q", i+1, src, got, f.want[i])
				}
			}
		})
	}
}

func record(t *testing.T) {
	o := newOracle(t)
	for _, f := range readCorpus(t) {
		var sb strings.Builder
		proto := "2"
		if strings.HasPrefix(f.name(), "resp3") {
			proto = "3"
		}
		for i, src := range f.scripts {
			if _, err := o.do("HELLO", proto); err != nil {
				t.Fatal(err)
			}
			got, err := o.eval(src, corpusKeys, corpusArgs)
			if err != nil {
				t.Errorf("%s: script %d ends the server: %v\n%s", f.path, i+1, err, src)
				o.restart()
			}
			sb.WriteString(strconv.Quote(got) + "\n")
		}
		if err := os.WriteFile(strings.TrimSuffix(f.path, ".txt")+".golden", []byte(sb.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
