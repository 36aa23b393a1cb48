package lock_test

import (
	"os"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(orders.work)
	os.Exit(doors.M{TestingM: exampleserver.M{M: m}}.Run())
}

var connect = exampleserver.Connect
