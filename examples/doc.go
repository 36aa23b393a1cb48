// Package examples tests the programs in the directories below it. Each of them is a program of its
// own: copy its directory into any module. README.md lists them.
package examples
