// Package bitmap has the scripts of package bitmap and the commands that run them.
package bitmap
