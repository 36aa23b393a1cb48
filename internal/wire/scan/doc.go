// Package scan has the script of package scan and the command that calls it.
package scan
