// Package ttlhash is what package ttlhash and the commands TTLHASH.* say to the server: the keys, the
// form of a stored value, the scripts, the commands that call them, the readers of their replies,
// and which servers expire fields by themselves.
package ttlhash
