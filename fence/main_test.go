package fence_test

import (
	"os"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
)

func TestMain(m *testing.M) { os.Exit(exampleserver.M{M: m}.Run()) }

var connect = exampleserver.Connect
