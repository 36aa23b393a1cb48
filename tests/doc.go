// Package tests holds the tests that need clients and databases which the library itself
// must not depend on. It is a module of its own for that reason.
package tests
