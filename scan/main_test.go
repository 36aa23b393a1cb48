package scan_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/doors"
	"github.com/redoubt-go/redoubt/internal/exampleserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect
