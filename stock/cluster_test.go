package stock_test

import (
	"fmt"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/stock"
)

// Items in all slots of a cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	v, err := stock.New(client, stock.Options{})
	must(t, err)
	for i := range 30 {
		name := fmt.Sprint("sku:", i)
		_, err := v.Set(t.Context(), name, 3)
		must(t, err)
		reserve(t, v, name, "one", 1)
		reserve(t, v, name, "two", 2)
		must(t, v.Commit(t.Context(), name, "one"))
		must(t, v.Cancel(t.Context(), name, "two"))
		info, err := v.Info(t.Context(), name)
		must(t, err)
		if info != (stock.Info{Name: name, Total: 3, Available: 2, Sold: 1}) {
			t.Errorf("%s: %+v", name, info)
		}
		if deleted, err := v.Delete(t.Context(), name); !deleted || err != nil {
			t.Errorf("%s: deleted %v, %v", name, deleted, err)
		}
	}
}
