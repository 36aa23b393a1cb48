package goredis_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis reports every failed dial on standard error
	os.Exit(m.Run())
}
