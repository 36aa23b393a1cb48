package redistest_test

import (
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A server that is paused must not be in the process group of the tests: the kernel may
// send SIGHUP to that whole group.
func TestServersAreInGroupsOfTheirOwn(t *testing.T) {
	info := redistest.Start(t).CLI("INFO", "server")
	found := regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(info)
	if found == nil {
		t.Fatalf("INFO has no process_id: %q", info)
	}
	pid, _ := strconv.Atoi(found[1])
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process %d is in group %d, %v", pid, group, err)
	}
}
