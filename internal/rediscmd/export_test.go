//go:build !quick

package rediscmd

// Table and Parse are the text and what reads it.
var (
	Table = table
	Parse = parse
)

// AccessOfTable returns what the table says that is done with the first key and with the others;
// keyed: there are any.
func (c *Command) AccessOfTable() (first, others Access, keyed bool) {
	return c.first.access(), c.others.access(), c.keyed
}
