package cache_test

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A mainTB is a testing.TB for what all tests of the package share.
type mainTB struct {
	testing.TB
	cleanups []func()
}

func (m *mainTB) Helper()          {}
func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }
func (m *mainTB) Name() string     { return "TestMain" }
func (m *mainTB) TempDir() string  { return os.TempDir() }

func (m *mainTB) end() {
	for _, f := range slices.Backward(m.cleanups) {
		f()
	}
}

var shared struct {
	mainTB
	sync.Mutex
	addrs []string
}

// sharedCluster starts a cluster for all tests when the first asks for it.
func sharedCluster(t *testing.T) []string {
	shared.Lock()
	defer shared.Unlock()
	if shared.addrs == nil {
		shared.TB = t // for what it reports while it starts
		shared.addrs = redistest.StartCluster(&shared.mainTB, 3, 0).Addrs()
	}
	return shared.addrs
}

func TestMain(m *testing.M) {
	faults.WorkIfHired(coldOrders.work)
	code := doors.M{TestingM: exampleserver.M{M: m}}.Run()
	shared.end()
	os.Exit(code)
}
