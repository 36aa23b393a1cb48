// Package scan is what package scan says to the server by a script.
package scan
