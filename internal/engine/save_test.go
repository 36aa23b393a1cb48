package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestSave: Redis reads the file that SAVE and BGSAVE write, functions and all.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, engine.Options{Dir: dir})
	s := e.Session()
	for _, line := range []string{"SET a 1", "RPUSH l 1 2 3", "SADD s x", "HSET h f v", "ZADD z 1.5 m", "XADD st 1-1 f v", "XGROUP CREATE st g 0", "SET e v PXAT 4000000000000"} {
		if got := runLine(s, line); got[0] == '-' {
			t.Fatalf("%s: %s", line, got)
		}
	}
	runLine(s, "SELECT 5")
	runLine(s, "SET other db")
	reply, _ := s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte("#!lua name=lib\nredis.register_function('f', function() return 7 end)")})
	if reply[0] == '-' {
		t.Fatalf("FUNCTION LOAD: %s", reply)
	}
	wantLine(t, s, "SAVE", "+OK\r\n")
	r := redistest.Start(t, "--dir", copyOf(t, filepath.Join(dir, "dump.rdb")))
	for line, reply := range map[string]string{
		"GET a": "1", "LRANGE l 0 -1": "1\n2\n3", "SMEMBERS s": "x", "HGET h f": "v", "ZSCORE z m": "1.5", "XLEN st": "1",
		"PEXPIRETIME e": "4000000000000", "-n 5 GET other": "db", "FCALL f 0": "7", "DBSIZE": "7",
	} {
		if got := r.CLI(strings.Fields(line)...); got != reply {
			t.Errorf("%s: %q, want %q", line, got, reply)
		}
	}
	before := runLine(s, "LASTSAVE")
	await.Until(t, time.Minute, "LASTSAVE is later", func() bool {
		wantLine(t, s, "BGSAVE", "+Background saving started\r\n")
		await.Until(t, time.Minute, "BGSAVE ends", func() bool { return strings.Contains(runLine(s, "INFO persistence"), "rdb_bgsave_in_progress:0") })
		return runLine(s, "LASTSAVE") != before
	})
	if got := runLine(s, "INFO persistence"); !strings.Contains(got, "rdb_last_bgsave_status:ok\r\n") || !strings.Contains(got, "rdb_changes_since_last_save:0\r\n") {
		t.Errorf("%s", got)
	}
	// A file that can't be written leaves the one of before.
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := runLine(s, "SAVE"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("SAVE: %s", got)
	}
	if got := runLine(s, "INFO persistence"); !strings.Contains(got, "rdb_last_bgsave_status:err\r\n") {
		t.Errorf("%s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "dump.rdb")); err != nil {
		t.Error(err)
	}
	wantLine(t, openEngine(t, engine.Options{}).Session(), "SAVE", "-ERR nothing is saved by this engine: it has no directory\r\n")
}

// copyOf copies a file into a directory of its own.
func copyOf(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func openEngine(t *testing.T, opts engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func runLine(s *engine.Session, line string) string {
	var args [][]byte
	for word := range strings.FieldsSeq(line) {
		args = append(args, []byte(word))
	}
	reply, _ := s.Do(nil, args)
	return string(reply)
}

func wantLine(t *testing.T, s *engine.Session, line, reply string) {
	t.Helper()
	if got := runLine(s, line); got != reply {
		t.Errorf("%s: got %q, want %q", line, got, reply)
	}
}
