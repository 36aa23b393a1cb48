// Package bloom is what package bloom and the commands BF.* say to the server: the scripts, the
// commands that call them, and the readers of their replies. The commands BF.* keep a filter as
// RedisBloom does; those filters, the chains, are in this package as a whole.
package bloom
