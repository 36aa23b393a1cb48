// Package ttlhash has the scripts of expiring hashes and their calling convention. The library's
// package ttlhash and the commands TTLHASH.* share it: keys, the encoding of a stored value, commands
// that call the scripts, and readers of their replies. [Servers] knows which servers expire fields
// themselves.
package ttlhash
