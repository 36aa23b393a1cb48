package tests

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// permissive are the licences that whoever links Redoubt can accept without asking, each by words of its text.
var permissive = map[string]string{
	"Apache 2.0": "Apache License Version 2.0, January 2004",
	"BSD":        "Redistribution and use in source and binary forms, with or without modification, are permitted",
	"ISC":        "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee",
	"MIT":        "Permission is hereby granted, free of charge, to any person obtaining a copy",
}

// licence names the permissive licence of a text, or is empty.
func licence(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n> ", "\n")), " ") // one quotes it, as in Markdown
	for _, other := range []string{"GNU GENERAL PUBLIC", "GNU LESSER", "GNU AFFERO", "Business Source", "Server Side Public"} {
		if strings.Contains(strings.ToUpper(text), strings.ToUpper(other)) {
			return ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(permissive)) {
		if strings.Contains(text, permissive[name]) {
			return name
		}
	}
	return ""
}

// TestLicences: every module that the programs and the packages for users link has a permissive licence.
func TestLicences(t *testing.T) {
	slow.Test(t, "it downloads what the modules for other libraries need")
	roots := []string{".."}
	for _, pattern := range []string{"../*conn/go.mod", "../lock/*/go.mod", "../ratelimit/*/go.mod", "../observe/*/go.mod"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			roots = append(roots, filepath.Dir(f))
		}
	}
	if len(roots) < 3 {
		t.Fatalf("only the modules %q", roots)
	}
	modules := map[string]string{} // to their directories
	for _, root := range roots {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./...")
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", root, err)
		}
		for line := range strings.Lines(string(out)) {
			path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if ok && !strings.HasPrefix(path, "github.com/redoubt-go/") {
				modules[path] = dir
			}
		}
	}
	if modules["github.com/redis/go-redis/v9"] == "" {
		t.Fatalf("go-redis is not among the modules %v", modules)
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		files, err := filepath.Glob(filepath.Join(modules[path], "[LlC][IiO][CcP][EeY]*")) // LICENSE, LICENCE, COPYING
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no file with a licence", path)
			continue
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if name := licence(string(text)); name == "" {
			t.Errorf("%s has a licence that is not permitted: %s", path, filepath.Base(files[0]))
		} else {
			t.Logf("%s: %s", path, name)
		}
	}
}

func TestLicence(t *testing.T) {
	for text, want := range map[string]string{
		"MIT License\n\nPermission is hereby granted, free of charge, to any\nperson obtaining a copy": "MIT",
		"GNU GENERAL PUBLIC LICENSE Version 3":                                                         "",
		"All rights reserved.":                                                                         "",
	} {
		if got := licence(text); got != want {
			t.Errorf("%q is %q; want %q", text, got, want)
		}
	}
}
