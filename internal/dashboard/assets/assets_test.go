package assets_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/dashboard/assets"
)

// files returns the embedded files whose names end with one of endings.
func files(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(assets.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(endings, path.Ext(name)) && len(endings) > 0 {
			return err
		}
		text, err := fs.ReadFile(assets.Files, name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// own leaves out the vendored files.
func own(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "libs/") })
	return files
}

// Go's embedding leaves out some names silently. The binary has every file of the folder.
func TestAllFilesAreEmbedded(t *testing.T) {
	embedded := files(t)
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) != ".go" {
			if _, ok := embedded[name]; !ok {
				t.Errorf("%s is not embedded", name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A browser loads at most 100 KB for the whole page.
func TestSize(t *testing.T) {
	var total int
	for _, text := range files(t) {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		total += b.Len()
	}
	t.Logf("%d bytes in gzip", total)
	if total > 100_000 {
		t.Errorf("the files have %d bytes in gzip, more than 100,000", total)
	}
}

func TestVendoredFilesHaveTheirLicence(t *testing.T) {
	all := files(t)
	if !strings.Contains(all["libs/uplot/LICENSE"], "MIT License") || !strings.Contains(all["libs/uplot/uPlot.iife.min.js"], "(v1.6.32)") {
		t.Error("libs/uplot is not uPlot 1.6.32 with its licence")
	}
}

// texts returns the texts of a language.
func texts(t *testing.T, language string) (m map[string]string) {
	t.Helper()
	b, err := fs.ReadFile(assets.Files, "i18n/"+language+".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", language, err)
	}
	return m
}

var (
	placeholder = regexp.MustCompile(`\{\w+\}`)
	usedKey     = regexp.MustCompile(`\bt\("([\w.]+)"`)
	usedPrefix  = regexp.MustCompile("(?:\\bt\\(`|\\bknown\\(\")([\\w.]+\\.)")
)

// Both languages have every text that the page uses, with the same placeholders, and no other text.
func TestNoTextIsMissing(t *testing.T) {
	en, zh := texts(t, "en"), texts(t, "zh-CN")
	for key, text := range en {
		other, ok := zh[key]
		if !ok || other == "" {
			t.Errorf("zh-CN has no text %s", key)
		}
		a, b := placeholder.FindAllString(text, -1), placeholder.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Errorf("%s has the placeholders %q in en and %q in zh-CN", key, a, b)
		}
	}
	for key := range zh {
		if _, ok := en[key]; !ok {
			t.Errorf("en has no text %s", key)
		}
	}
	var code strings.Builder
	for _, text := range own(files(t, ".js")) {
		code.WriteString(text)
	}
	used := map[string]bool{}
	for _, m := range usedKey.FindAllStringSubmatch(code.String(), -1) {
		used[m[1]] = true
		if _, ok := en[m[1]]; !ok {
			t.Errorf("the page uses the text %s, which does not exist", m[1])
		}
	}
	prefixes := map[string]bool{}
	for _, m := range usedPrefix.FindAllStringSubmatch(code.String(), -1) {
		prefixes[m[1]] = true
	}
	if len(used) < 100 || len(prefixes) < 5 {
		t.Fatalf("found only %d texts and %d prefixes in the code", len(used), len(prefixes))
	}
	for key := range en {
		if !used[key] && !prefixes[key[:strings.LastIndex(key, ".")+1]] {
			t.Errorf("nothing uses the text %s", key)
		}
	}
	for prefix, words := range map[string][]string{ // texts that the page makes from its own words
		"view.": {"overview", "locks", "limits", "queues", "stock", "caches", "bloom", "pools", "engine"}, "range.": {"minute", "hour", "day"},
		"theme.": {"auto", "light", "dark"}, "state.": {"ready", "due", "active", "waiting", "dead", "up", "down", "ejected"}, "queues.when.": {"ready", "due", "active", "dead"},
	} {
		for _, word := range words {
			if en[prefix+word] == "" {
				t.Errorf("the page needs the text %s", prefix+word)
			}
		}
	}
}

// The page never builds HTML from strings, has no inline script or style, and names no other host,
// so that a strict Content-Security-Policy holds and data can't become markup.
func TestThePageIsStrict(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style|cssText`)
	for name, text := range own(files(t, ".js")) {
		if m := forbidden.FindString(text); m != "" {
			t.Errorf("%s has %s", name, m)
		}
	}
	inline := regexp.MustCompile(`(?i)<script(?: type="?\w+"?)?>|<style|\sstyle=|\son\w+=|<base|="/`)
	for name, text := range own(files(t, ".html")) {
		if m := inline.FindString(text); m != "" {
			t.Errorf("%s has %s", name, m)
		}
	}
	host := regexp.MustCompile(`(?:https?:)?//[\w-]+\.[\w.-]+`)
	for name, text := range files(t) {
		for _, m := range host.FindAllString(text, -1) {
			if !strings.HasSuffix(m, "//127.0.0.1") && !strings.HasSuffix(m, "www.w3.org") && name != "libs/uplot/LICENSE" && !strings.HasSuffix(m, "//github.com") {
				t.Errorf("%s names another host: %s", name, m)
			}
		}
	}
}
