// Package stock is what package stock and the commands STOCK.* say to the server: the keys, the
// scripts, the commands that call them, and the readers of their replies.
package stock
