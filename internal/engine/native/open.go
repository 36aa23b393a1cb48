package native

import (
	"context"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
)

// An import of this package has redoubt.Open take embedded: URLs. Package engine can't do
// so: it knows none of the functions here.
func init() { redoubt.Register(open, "embedded") }

// open opens an engine with the functions of this package and otherwise the defaults: in
// memory, or in the directory that follows "embedded:".
func open(ctx context.Context, url string) (redoubt.OpenConn, error) {
	_, dir, _ := strings.Cut(url, ":")
	e, err := engine.Open(ctx, engine.Options{Natives: All(), Dir: dir})
	if err != nil {
		return nil, err
	}
	return e, nil
}
