package engine

import (
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/redoubttest"
)

func TestConformance(t *testing.T) {
	e := open(t, Options{})
	redoubttest.Run(t, func(*testing.T) redoubt.Conn { return e })
}
