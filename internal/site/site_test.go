package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var repository = os.DirFS("../..")

var (
	links = regexp.MustCompile(` (href|src)="([^"]*)"`)
	ids   = regexp.MustCompile(` id="([^"]*)"`)
)

// Every link of every page leads to a file of the site and, with an anchor, to an element of it; or to a file of the
// repository. A page loads nothing from another host.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	files, err := build(repository)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for name, content := range files {
		if path.Ext(name) == ".html" {
			pages++
			for _, fault := range linkFaults(files, repository, name, string(content)) {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	if pages < 60 {
		t.Errorf("the site has %d pages, want all", pages)
	}
}

// linkFaults returns the links of a page that lead nowhere.
func linkFaults(files map[string][]byte, repo fs.FS, name, content string) (faults []string) {
	const address = "https://github.com/redoubt-go/redoubt/"
	for _, m := range links.FindAllStringSubmatch(content, -1) {
		u, err := url.Parse(strings.ReplaceAll(m[2], "&amp;", "&"))
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprint(err))
			continue
		case u.IsAbs() && m[1] == "src":
			faults = append(faults, "loads "+m[2]+" from another host")
			continue
		case u.IsAbs():
			if file, ours := strings.CutPrefix(strings.Replace(m[2], "/tree/", "/blob/", 1), address+"blob/main/"); ours {
				file, _, _ = strings.Cut(file, "#")
				if _, err := fs.Stat(repo, strings.TrimSuffix(file, "/")); err != nil {
					faults = append(faults, "the repository has no file for "+m[2])
				}
			}
			continue
		}
		target := name
		if u.Path != "" {
			target = path.Join(path.Dir(name), u.Path)
		}
		if files[target] == nil {
			faults = append(faults, "no file for the link "+m[2])
			continue
		}
		found := slices.ContainsFunc(ids.FindAllStringSubmatch(string(files[target]), -1), func(id []string) bool { return id[1] == u.Fragment })
		if u.Fragment != "" && !found {
			faults = append(faults, "no heading for the link "+m[2])
		}
	}
	return faults
}

func TestLinkFaultsAreFound(t *testing.T) {
	files := map[string][]byte{"a/b.html": []byte(`<h2 id="一">`), "c.html": nil}
	repo := fstest.MapFS{"lock/doc.go": {}}
	for link, want := range map[string]string{
		`<a href="b.html#%E4%B8%80">`: "", `<a href="b.html#二">`: "no heading", `<a href="../c.html">`: "no file", `<a href="c.html">`: "no file",
		`<a href="https://github.com/redoubt-go/redoubt/tree/main/lock">`:        "",
		`<a href="https://github.com/redoubt-go/redoubt/blob/main/lock/doc.go">`: "",
		`<a href="https://github.com/redoubt-go/redoubt/blob/main/stock">`:       "the repository has no file",
		`<a href="https://example.com/">`:                                        "",
		`<img src="https://example.com/a.png">`:                                  "from another host",
	} {
		got := strings.Join(linkFaults(files, repo, "a/x.html", link), "\n")
		if want == "" != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", link, got, want)
		}
	}
}

// Anchors are GitHub's, because links between documents use them.
func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"Which kind":                         "which-kind",
		"redoubt lock":                       "redoubt-lock",
		"Directives of Redoubt's own":        "directives-of-redoubts-own",
		"Bloom filters, bitmaps, and: more!": "bloom-filters-bitmaps-and-more",
		"热点 key":                             "热点-key",
		"锁：选哪一种":                             "锁选哪一种",
		"LOCK.ACQUIRE":                       "lockacquire",
		"max_burst + 1":                      "max_burst--1",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("%q has the anchor %q, want %q", heading, got, want)
		}
	}
}

// example is a small repository.
func example() fstest.MapFS {
	texts := map[string]string{
		"go.mod": "module github.com/redoubt-go/redoubt\n", "VERSION": "v1.2.3\n", "internal/dashboard/assets/favicon.svg": "<svg/>",
		"README.md": "# Redoubt\n", "README.zh-CN.md": "# Redoubt\n", "bench/README.md": "# Bench\n", "examples/README.md": "# Examples\n", "CHANGELOG.md": "# Changelog\n",
		"lock/doc.go":           "package lock\n",
		"docs/README.md":        "# Documentation\n\n## I want to …\n\n| | |\n|---|---|\n| wait | [locks](locks.md), [cli](cli.md#a) |\n| x | [stock](stock.md), [cli](cli.md) |\n\n## Reference\n\n[cli](cli.md)\n",
		"docs/zh-CN/README.md":  "# 文档\n\n## 我想……\n\n| | |\n|---|---|\n| | [锁](locks.md) |\n\n## 参考\n\n[命令行](../cli.md)\n",
		"docs/locks.md":         "# Locks\n\n[中文](zh-CN/locks.md)\n\nA lock. [code](../lock/doc.go)\n\n<!-- setup\nhidden\n-->\n```go\nx := `1 < 2`\n```\n\n## Same\n\n## Same\n\n| a | b |\n|---|---|\n| c1 | d1 |\n",
		"docs/zh-CN/locks/x.md": "# 公平的锁\n", "docs/zh-CN/locks.md": "<!-- source: docs/locks.md 0 -->\n\n# 锁\n\n[English](../locks.md)\n\n分布式\n锁 [步骤](#步骤)\n\n## 步骤\n",
		"docs/stock.md": "# Stock\n", "docs/cli.md": "# The command line\n\n## A\n", "docs/cli/lock.md": "# The command line: locks\n",
	}
	repo := fstest.MapFS{}
	for name, text := range texts {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repo
}

func TestPage(t *testing.T) {
	files, err := build(example())
	if err != nil {
		t.Fatal(err)
	}
	locks := string(files["docs/locks.html"])
	for _, want := range []string{
		`<html lang="en" data-root="../">`, `<title>Locks · Redoubt</title>`, `<h1 id="locks">Locks</h1>`,
		`<a class="switch" href="zh-CN/locks.html" lang="zh-CN" hreflang="zh-CN">中文</a>`,
		`href="https://github.com/redoubt-go/redoubt/blob/main/lock/doc.go"`,
		`<h2 id="same">`, `<h2 id="same-1">`, `x := <span class="string">` + "`1 &lt; 2`", `href="locks.html" aria-current="page"`,
		`<a rel="prev" href="index.html"><small>Previous</small>Documentation</a>`, `<a rel="next" href="stock.html"><small>Next</small>Stock</a>`,
		`<li class="below"><a href="cli/lock.html">Locks</a>`, "Redoubt v1.2.3", `aria-expanded="false">Menu</button>`,
	} {
		if !strings.Contains(locks, want) {
			t.Errorf("docs/locks.html lacks %s", want)
		}
	}
	for _, not := range []string{"setup", ">中文</a></p>"} {
		if strings.Contains(locks, not) {
			t.Errorf("docs/locks.html has %s", not)
		}
	}
	for file, want := range map[string]string{
		"docs/stock.html":       `href="zh-CN/index.html" lang="zh-CN" hreflang="zh-CN" title="This page is only in English"`,
		"docs/zh-CN/locks.html": `<a href="../cli.html" hreflang="en">命令行</a>`,
		"index.zh-CN.html":      `<html lang="zh-CN" data-root="./">`,
	} {
		if !strings.Contains(string(files[file]), want) {
			t.Errorf("%s lacks %s", file, want)
		}
	}
	if strings.Contains(locks, "分布式") || !strings.Contains(string(files["docs/zh-CN/locks.html"]), "分布式锁") {
		t.Error("a line of Chinese that goes on has a space")
	}
}

func TestMenu(t *testing.T) {
	s := &site{repo: example(), pages: map[string]*page{}, files: map[string][]byte{}}
	if err := s.find(); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pages {
		if err := s.read(p); err != nil {
			t.Fatal(err)
		}
	}
	for tongue, want := range map[*tongue]string{
		english: "Start: Redoubt, Documentation; Guides: Locks, Stock; Reference: cli, Locks; Project: Changelog, Bench, Examples",
		chinese: "开始: Redoubt, 文档; 指南: 锁, 公平; 参考: 命令行, Locks; 项目: Changelog, Bench, Examples",
	} {
		menu, err := s.menu(tongue)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range menu {
			var labels []string
			for _, e := range m.entries {
				labels = append(labels, e.label)
			}
			got = append(got, m.title+": "+strings.Join(labels, ", "))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("the menu in %s is\n%s, want\n%s", tongue.Tag, got, want)
		}
	}
}

// The index has the text of each section once, with the address of its heading.
func TestIndex(t *testing.T) {
	files, err := build(example())
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"search-en.js": {"Locks|docs/locks.html||A lock. code x := `1 < 2`", "Locks|docs/locks.html#same-1|Same|a b c1 d1"},
		// Pages that are only in English are there too.
		"search-zh-CN.js": {"锁|docs/zh-CN/locks.html||分布式锁 步骤", "The command line|docs/cli.html#a|A|"},
	} {
		text, ok := strings.CutPrefix(string(files[file]), "var searchSections = ")
		var sections [][]string
		if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";\n")), &sections); err != nil || !ok {
			t.Fatalf("%s: %v", file, err)
		}
		got := map[string]bool{}
		for _, s := range sections {
			got[strings.Join(s, "|")] = true
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("%s lacks %q; it has %q", file, w, slices.Sorted(maps.Keys(got)))
			}
		}
	}
}

func TestFaultsOfDocumentsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n[b](no.md)\n":          "docs/new.md: the link no.md",
		"# A\n\n![b](images/no.png)\n": "docs/new.md: the picture images/no.png",
		"text\n":                       "docs/new.md has no heading of level 1",
		"# A\n":                        "docs/new.md: no section of docs/README.md lists it",
	} {
		repo := example()
		repo["docs/new.md"] = &fstest.MapFile{Data: []byte(text)}
		if _, err := build(repo); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}

func TestMiniSearchHasItsLicence(t *testing.T) {
	code, err := assets.ReadFile("assets/minisearch/index.js")
	if err != nil || !strings.Contains(string(code), "MiniSearch") {
		t.Errorf("minisearch/index.js is not MiniSearch: %v", err)
	}
	licence, err := assets.ReadFile("assets/minisearch/LICENSE")
	if err != nil || !strings.Contains(string(licence), "Luca Ongaro") {
		t.Errorf("minisearch/LICENSE is not MiniSearch's: %v", err)
	}
}

func TestMarked(t *testing.T) {
	for _, c := range []struct{ language, text, want string }{
		{"go", "x := \"http://a\" // isn't\n", `x := <span class="string">&quot;http://a&quot;</span> <span class="comment">// isn't</span>` + "\n"},
		{"sh", "a#b 'c d' # it's\n", `a#b <span class="string">'c d'</span><span class="comment"> # it's</span>` + "\n"},
		{"redis", "> GET <a>\n> x\n1) > 2\n", `<span class="typed">&gt; GET &lt;a&gt;</span>` + "\n" + `<span class="typed">&gt; x</span>` + "\n1) &gt; 2\n"},
		{"text", "a # \"b\"\n", "a # &quot;b&quot;\n"},
	} {
		if got := marked(c.language, c.text); got != c.want {
			t.Errorf("%s: %q becomes\n%s, want\n%s", c.language, c.text, got, c.want)
		}
	}
}
