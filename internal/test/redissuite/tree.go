package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// A change is made to a file of the suite before it is run.
type change struct{ file, from, to, why string }

// changes leave out what would end a unit before its end, and run what needs no server of its own.
var changes = []change{
	{"tests/unit/acl.tcl", `start_server {tags {"acl external:skip"}} {`, `start_server {tags {"acl"}} {`, "the first part needs no server of its own"},
	{"tests/unit/acl-v2.tcl", `start_server {tags {"acl external:skip"}} {`, `start_server {tags {"acl"}} {`, "the first part needs no server of its own"},
	{"tests/unit/auth.tcl", `start_server {tags {"auth external:skip"}} {`, `start_server {tags {"auth"}} {`, "the first part needs no server of its own"},
	{"tests/unit/info.tcl", "start_server {tags {\"info\" \"external:skip\"}} {\n    start_server {} {", "start_server {tags {\"info\"}} {\n    start_server {} {", "it needs no server of its own"},
	{"tests/unit/maxmemory.tcl", "start_server {tags {\"maxmemory external:skip\"}} {\n    test \"Without", "start_server {tags {\"maxmemory\"}} {\n    test \"Without",
		"the tests of policies need no server of their own; those of clients' buffers, replicas and rehashing are left out"},
}

// tree makes a directory like source, in which the suite may write, with the
// changes made: links to what it doesn't change.
func tree(source string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "redissuite"); err != nil {
		return "", err
	}
	if source, err = filepath.Abs(source); err != nil {
		return dir, err
	}
	// These directories are made; everything else is linked.
	made := map[string]bool{"tests": true, "tests/unit": true, "tests/tmp": true}
	for d := range made {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return dir, err
		}
	}
	for _, c := range changes {
		text, err := os.ReadFile(filepath.Join(source, c.file))
		if err != nil {
			return dir, err
		}
		if n := bytes.Count(text, []byte(c.from)); n != 1 {
			return dir, fmt.Errorf("%s has %q %d times, want once: is this Redis 7.0?", c.file, c.from, n)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), bytes.ReplaceAll(text, []byte(c.from), []byte(c.to)), 0o644); err != nil {
			return dir, err
		}
		made[c.file] = true
	}
	for _, parent := range []string{"", "tests", "tests/unit"} {
		entries, err := os.ReadDir(filepath.Join(source, parent))
		if err != nil {
			return dir, err
		}
		for _, entry := range entries {
			name := filepath.Join(parent, entry.Name())
			if made[filepath.ToSlash(name)] {
				continue
			}
			if err := os.Symlink(filepath.Join(source, name), filepath.Join(dir, name)); err != nil {
				return dir, err
			}
		}
	}
	return dir, nil
}
