// Package geo is what package geo says to the server by scripts.
package geo
