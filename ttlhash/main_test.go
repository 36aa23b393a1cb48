package ttlhash_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/doors"
	"github.com/redoubt-go/redoubt/internal/exampleserver"
	"github.com/redoubt-go/redoubt/internal/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}

var connect = exampleserver.Connect
