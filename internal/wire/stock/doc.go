// Package stock has the scripts of stock and their calling convention. The library's package stock
// and the commands STOCK.* share it: keys, commands that call the scripts, and readers of their
// replies.
package stock
