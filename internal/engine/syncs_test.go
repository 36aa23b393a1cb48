package engine

import (
	"context"
	"errors"
	"fmt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// TestPipelinesShareSyncs wants a pipeline to wait for one fsync, or for two
// where the first writes had begun one already, through each way into the
// engine. It counts what callers wait for, not the syncs: on a disk that
// takes no time there may be one for each command, and nobody has waited.
func TestPipelinesShareSyncs(t *testing.T) {
	const n = 200
	var cmds []redoubt.Cmd
	var wire []byte
	for i := range n {
		key := fmt.Sprint("k", i)
		cmds = append(cmds, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"v"}})
		wire = resp.AppendCommand(wire, "SET", key, "v")
	}
	for name, send := range map[string]func(*testing.T, *Engine){
		"Pipeline": func(t *testing.T, e *Engine) {
			for _, r := range e.Pipeline(context.Background(), cmds) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			}
		},
		"connection": func(t *testing.T, e *Engine) {
			c, err := e.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(wire); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n*len("+OK\r\n"))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != strings.Repeat("+OK\r\n", n) {
				t.Errorf("got %.100q, %v", got, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := onDisk(t, lazyFS{faultdisk.New()}, Options{Fsync: aof.Always})
				began := time.Now()
				send(t, e)
				if took := time.Since(began); took < syncTime || took > 2*syncTime {
					t.Errorf("%d commands waited for %v, a sync takes %v", n, took, syncTime)
				}
			})
		})
	}
}

// syncTime is how long a sync on a lazyFS takes, of the bubble's time, in
// which commands take none.
const syncTime = time.Millisecond

type lazyFS struct{ *faultdisk.Disk }

type lazyFile struct{ aof.File }

func (d lazyFS) Create(name string) (aof.File, error) {
	f, err := d.Disk.Create(name)
	return lazyFile{f}, err
}

func (f lazyFile) Sync() error {
	await.Advance(syncTime)
	return f.File.Sync()
}

// TestConnOnSlowDisk wants a caller to be able to leave while its write is on
// its way to the disk, and to be told that its outcome is not known.
func TestConnOnSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, slow := onSlowDisk(t)
		ctx, cancel := context.WithCancel(t.Context())
		set := redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}
		got := make(chan error, 4)
		go func() { got <- e.Do(ctx, set).Err }()
		go func() { got <- e.Pipeline(ctx, []redoubt.Cmd{set, set})[1].Err }()
		go func() { got <- e.Pipeline(ctx, []redoubt.Cmd{{Name: "KEYS", Args: []string{"*"}}, set})[1].Err }()
		synctest.Wait()
		if len(got) > 0 {
			t.Error("a write was answered before it was synced")
		}
		cancel()
		for range 3 {
			if err := <-got; !errors.Is(err, redoubt.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want an unknown outcome", err)
			}
		}
		close(slow.gate)
	})
}

// TestConnOnBrokenDisk wants a write that can't be saved to be told as one
// whose outcome is not known, and later ones as refused.
func TestConnOnBrokenDisk(t *testing.T) {
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{Fsync: aof.Always})
	c, err := e.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	disk.Fail(syscall.EIO, nil)
	if _, err := c.Write(resp.AppendCommand(nil, "SET", "k", "v")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	if n, err := c.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), "-MISCONF What") {
		t.Errorf("read %q, %v", b[:n], err)
	}
	set := redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}
	var refused redoubt.ServerError
	if err := e.Do(t.Context(), set).Err; !errors.As(err, &refused) || refused.Code() != "MISCONF" {
		t.Errorf("Do returned %v, want MISCONF", err)
	}
	get := redoubt.Cmd{Name: "GET", Keys: []string{"k"}, Flags: redoubt.ReadOnly}
	if err := e.Do(t.Context(), get).Err; !errors.Is(err, syscall.EIO) || errors.Is(err, redoubt.ErrUnknownOutcome) {
		t.Errorf("Do returned %v, want EIO", err)
	}
	if r := e.Do(t.Context(), redoubt.Cmd{Name: "GET", Keys: []string{"other"}}); r.Err != nil {
		t.Errorf("a read of something else returned %v", r.Err)
	}
	disk.Fail(nil, nil)
}
