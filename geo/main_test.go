package geo_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/exampleserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(exampleserver.M{M: m}) }

var connect = exampleserver.Connect
