package ttlhash_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}

var connect = exampleserver.Connect
