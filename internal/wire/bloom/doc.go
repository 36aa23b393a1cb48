// Package bloom has the scripts of package bloom and of the commands BF.*, the commands that run
// them, and the readers of their replies. The commands BF.* keep a filter as RedisBloom does; the
// code of these filters, the chains, is all in this package.
package bloom
