package lock_test

import (
	"os"
	"testing"

	"github.com/redoubt-go/redoubt/internal/doors"
	"github.com/redoubt-go/redoubt/internal/exampleserver"
	"github.com/redoubt-go/redoubt/internal/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(orders.work)
	os.Exit(doors.M{TestingM: exampleserver.M{M: m}}.Run())
}

var connect = exampleserver.Connect
