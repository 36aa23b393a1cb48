// Package engine is an embedded Redis-compatible data store: see internal/engine.
package engine
