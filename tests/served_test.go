package tests

import (
	"bytes"
	"net/http"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A served is a running `redoubt serve`.
type served struct {
	name string
	page string // the address of the dashboard
	rdb  *redis.Client
}

// serveDashboard runs `redoubt serve` until the test ends. In args, LISTEN stands for the address for clients.
func serveDashboard(t *testing.T, binary, name string, args ...string) *served {
	t.Helper()
	var addrs []string
	for range 2 {
		port, err := ports.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Release)
		addrs = append(addrs, ports.Addr(port.Number))
	}
	for i := range args {
		if strings.HasSuffix(args[i], ".yml") {
			text, err := os.ReadFile(args[i])
			if err == nil {
				err = os.WriteFile(args[i], bytes.ReplaceAll(text, []byte("LISTEN"), []byte(addrs[0])), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if name != "pool" {
		args = append(args, "--listen", addrs[0])
	}
	var out await.Buffer
	cmd := osexec.Command(binary, append([]string{"serve", "--http", addrs[1]}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = redistest.Owned()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, out.String())
		}
	})
	s := &served{name: name, page: "http://" + addrs[1] + "/", rdb: redis.NewClient(&redis.Options{Addr: addrs[0]})}
	t.Cleanup(func() { _ = s.rdb.Close() })
	await.Until(t, patience, "serve answers", func() bool {
		answer, err := http.Get(s.page)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return s
}
