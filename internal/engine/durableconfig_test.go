package engine

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
)

func TestConfigTellsDurability(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		opts               Options
		log, fsync, dir    string
		refused, permitted string
	}{
		{Options{}, "no", "everysec", "", "yes", "no"},
		{Options{Dir: dir}, "yes", "everysec", dir, "no", "yes"},
		{Options{Dir: dir, Fsync: aof.Always}, "yes", "always", dir, "no", "yes"},
		{Options{Dir: dir, Fsync: aof.Never}, "yes", "no", dir, "no", "yes"},
	} {
		e, err := New(c.opts)
		if err != nil {
			t.Fatal(err)
		}
		s := e.Session()
		for name, want := range map[string]string{"appendonly": c.log, "appendfsync": c.fsync, "dir": c.dir, "save": ""} {
			if got := run(s, "CONFIG GET "+name); got != string(resp.AppendCommand(nil, name, want)) {
				t.Errorf("%+v: %s is %q, want %q", c.opts, name, got, want)
			}
		}
		if got := run(s, "CONFIG SET appendonly "+c.permitted); got != "+OK\r\n" {
			t.Errorf("appendonly %s: %s", c.permitted, got)
		}
		for _, set := range []string{"appendonly " + c.refused, "appendonly maybe", "appendfsync no", "dir /tmp", "save 60"} {
			if got := run(s, "CONFIG SET "+set); !strings.HasPrefix(got, "-ERR CONFIG SET failed") {
				t.Errorf("CONFIG SET %s: %s", set, got)
			}
		}
		if info := run(s, "INFO persistence"); strings.Contains(info, "aof_enabled:1") != (c.log == "yes") {
			t.Errorf("%+v: %s", c.opts, info)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
