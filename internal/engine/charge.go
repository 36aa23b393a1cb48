package engine

// The engine knows at any time how much memory its keys take. It notes the size of a key before a
// command changes it. When the command is done, with its shards still locked, the engine adds up
// the differences. So it need not follow the steps of a command.

// A charge is a key that a command may have changed.
type charge struct {
	ks     *keyspace
	it     *item
	before int64
}

// Where an item stands with the accounts.
const (
	itemNoted = 1 << iota // it has a charge that is not settled
	itemGone              // it has left its dict
)

// note must be called before it is changed.
func (c *call) note(ks *keyspace, it *item) {
	if it.val.state&itemNoted == 0 {
		if s := c.e.snapshots.now; s != nil {
			c.takeFirst(s, ks, it)
		}
		c.charge(ks, it, footprint(it))
	}
}

func (c *call) charge(ks *keyspace, it *item, before int64) {
	it.val.state |= itemNoted
	c.charges = append(c.charges, charge{ks, it, before})
}

// settle adds up the call's changes in memory. The shards are still locked.
func (c *call) settle() {
	if len(c.charges) == 0 {
		return
	}
	total := int64(0)
	for i := range c.charges {
		ch := &c.charges[i]
		ch.it.val.state &^= itemNoted
		diff := -ch.before
		if ch.it.val.state&itemGone == 0 {
			diff += footprint(ch.it)
		}
		if diff != 0 { // or cores would pass the line to each other for nothing
			ch.ks.used += diff
			total += diff
		}
	}
	c.forgetCharges()
	if total != 0 {
		c.e.memory.used.Add(total)
	}
}

// forgetCharges keeps memory that is small for the next command.
func (c *call) forgetCharges() {
	if cap(c.charges) > 1<<10 {
		c.charges = nil
		return
	}
	clear(c.charges)
	c.charges = c.charges[:0]
}

// emptied is called before a keyspace is thrown away as a whole.
func (c *call) emptied(ks *keyspace) {
	c.settle()
	c.e.memory.used.Add(-ks.used)
	ks.used = 0
}
