package queue_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(workOrders.work)
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}
