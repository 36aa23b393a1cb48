// Package bitmap is what package bitmap says to the server by scripts.
package bitmap
