package examples

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// The worker cancels the two unpaid orders of a shop that has ended, and leaves the paid one.
func TestOrders(t *testing.T) {
	const want = `^shop: order (\S+)-1, 2 units
shop: order \S+-2, 3 units
shop: order \S+-3, 4 units
shop: order \S+-1 is paid
shop: ends
(worker: order \S+-[23] was not paid, [34] units are back
){2}sku:42: 10 units, 8 available, 0 reserved, 2 sold
$`
	matches(t, run(t, "orders", "-pay", "100ms"), want)
	url := redistest.Start(t).URL()
	matches(t, run(t, "orders", "-pay", "100ms", "-url", url), want)
}
