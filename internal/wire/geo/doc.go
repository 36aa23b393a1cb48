// Package geo has the scripts of package geo and the commands that call them.
package geo
