// Package matrix tests every promise of Redoubt by every way in, on all that the way reaches:
//
//	go test ./internal/test/matrix
//	go test ./internal/test/matrix -run TestMatrix -args -record && go generate ./internal/test/matrix
//
// All of it is in test files, so that no program builds it. A way in is the Go library, the
// RESP commands, or the command line. It reaches the embedded engine, `redoubt serve` on
// an engine, a Redis, Sentinel, a pool of three servers and a cluster, and Redis, Sentinel and
// Cluster directly. One test of a promise on one of these is a cell. A cell has one of three
// outcomes:
//
//   - the promise holds;
//   - it is refused at once, with an error that names what to do;
//   - the way doesn't offer it: there is no such command.
//
// testdata/found.json has the outcomes of all cells. TestMatrix fails where it finds another.
// -record has it keep what it finds, for docs/compatibility.md, which TestDocs holds to the
// file. A new outcome is to be read like a change of code: a promise must not become a refusal.
//
// The tests of the primitives inject faults and check histories; those here are short. They
// find what a way or a back end breaks: a wake-up that is sent where nobody listens, keys on
// different servers, a reply of another shape.
package matrix
