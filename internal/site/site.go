package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// A site is what build works on.
type site struct {
	repo    fs.FS
	address string           // of the repository: https://github.com/…
	version string           // the content of VERSION
	pages   map[string]*page // by their sources
	files   map[string][]byte
}

// A page is a document of the repository, and what the site makes of it.
type page struct {
	source string // its path in the repository: docs/locks.md
	path   string // its path in the site: docs/locks.html
	tongue *tongue
	twin   *page // the same page in the other language, or nil

	title    string
	body     template.HTML
	outline  []heading
	sections []section
}

// A heading is a line of a page's outline.
type heading struct{ ID, Text string }

// A section is what the search finds: a heading and the text up to the next one.
type section struct{ id, heading, text string }

// A tongue is a language of the site: its own words, and where its pages begin.
type tongue struct {
	Tag, Name      string
	home, contents string // sources: the first page, and the page whose links order the others

	Skip, Menu, Search, Searching, Nothing, OnThisPage, Previous, Next, Source, Alone string

	start, guides, project string // titles of sections in the menu
}

var (
	english = &tongue{
		Tag: "en", Name: "English", home: "README.md", contents: "docs/README.md",
		Skip: "To the content", Menu: "Menu", Search: "Search", Searching: "Loading…", Nothing: "No page has all of these words.",
		OnThisPage: "On this page", Previous: "Previous", Next: "Next", Source: "Source of this page", Alone: "This page is only in English",
		start: "Start", guides: "Guides", project: "Project",
	}
	chinese = &tongue{
		Tag: "zh-CN", Name: "中文", home: "README.zh-CN.md", contents: "docs/zh-CN/README.md",
		Skip: "跳到正文", Menu: "目录", Search: "搜索", Searching: "正在加载……", Nothing: "没有页面包含所有这些词。",
		OnThisPage: "本页内容", Previous: "上一页", Next: "下一页", Source: "本页源文件", Alone: "此页只有中文",
		start: "开始", guides: "指南", project: "项目",
	}
)

// other is the language that the page's language switch leads to.
func (t *tongue) other() *tongue {
	if t == english {
		return chinese
	}
	return english
}

// twinOf returns the source of the page in the other language, which need not exist.
func twinOf(source string) string {
	switch rest, inDocs := strings.CutPrefix(source, "docs/"); {
	case strings.HasPrefix(rest, "zh-CN/"):
		return "docs/" + strings.TrimPrefix(rest, "zh-CN/")
	case inDocs:
		return "docs/zh-CN/" + rest
	case strings.HasSuffix(source, ".zh-CN.md"):
		return strings.TrimSuffix(source, ".zh-CN.md") + ".md"
	default:
		return strings.TrimSuffix(source, ".md") + ".zh-CN.md"
	}
}

// build makes the files of the site, by their paths, from the files of the repository. A page is at the path of its
// document, so relative links between them stay.
func build(repo fs.FS) (map[string][]byte, error) {
	s := &site{repo: repo, pages: map[string]*page{}, files: map[string][]byte{}}
	if err := s.describe(); err != nil {
		return nil, err
	}
	if err := s.find(); err != nil {
		return nil, err
	}
	var faults []error
	for _, p := range s.pages {
		faults = append(faults, s.read(p))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for _, t := range []*tongue{english, chinese} {
		menu, err := s.menu(t)
		if err != nil {
			return nil, err
		}
		if err := s.write(t, menu); err != nil {
			return nil, err
		}
		if err := s.index(t, menu); err != nil {
			return nil, err
		}
	}
	return s.files, s.copyAssets()
}

// describe reads what the repository says of itself.
func (s *site) describe() error {
	mod, err := fs.ReadFile(s.repo, "go.mod")
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(mod)
	if m == nil {
		return errors.New("go.mod has no line module")
	}
	version, err := fs.ReadFile(s.repo, "VERSION")
	s.address, s.version = "https://"+string(m[1]), strings.TrimSpace(string(version))
	return err
}

// find lists the documents that become pages.
func (s *site) find() error {
	sources, err := fs.Glob(s.repo, "*.md")
	if err != nil {
		return err
	}
	sources = append(sources, "bench/README.md", "examples/README.md")
	err = fs.WalkDir(s.repo, "docs", func(file string, _ fs.DirEntry, err error) error {
		if path.Ext(file) == ".md" {
			sources = append(sources, file)
		}
		return err
	})
	for _, source := range sources {
		p := &page{source: source, tongue: english, path: strings.TrimSuffix(source, ".md") + ".html"}
		if strings.Contains(source, "zh-CN") {
			p.tongue = chinese
		}
		if name := path.Base(source); strings.HasPrefix(name, "README.") {
			p.path = path.Join(path.Dir(source), "index"+strings.TrimSuffix(strings.TrimPrefix(name, "README"), ".md")+".html")
		}
		s.pages[source] = p
	}
	for source, p := range s.pages {
		p.twin = s.pages[twinOf(source)]
	}
	return err
}

// relative returns the link from one path of the site to another.
func relative(from, to string) string {
	link, err := filepath.Rel(filepath.Dir(filepath.FromSlash(from)), filepath.FromSlash(to))
	if err != nil {
		panic(err) // both are relative
	}
	return filepath.ToSlash(link)
}

// A view is what the layout shows of a page.
type view struct {
	*tongue
	Root, Title, Version, SourceURL, RepositoryURL, Home string

	Body     template.HTML
	Outline  []heading
	Sections []menuView // of the menu

	PreviousPage, NextPage *linkView
	Switch                 linkView // to the other language
	SwitchTag              string
	HasTwin                bool
}

type menuView struct {
	Title string
	Items []linkView
}

type linkView struct {
	Text, URL, Tag string // Tag: the language, where it is another one than the page's
	Current, Below bool
}

// write makes the pages of a language.
func (s *site) write(t *tongue, menu []menuSection) error {
	var order []entry // of the pages in this language
	for _, m := range menu {
		for _, e := range m.entries {
			if e.page.tongue == t {
				order = append(order, e)
			}
		}
	}
	for i, e := range order {
		p := e.page
		link := func(e entry) *linkView { return &linkView{Text: e.label, URL: relative(p.path, e.page.path)} }
		v := view{
			tongue: t, Root: relative(p.path, ".") + "/", Title: p.title, Version: s.version,
			SourceURL: s.address + "/blob/main/" + p.source, RepositoryURL: s.address, Home: relative(p.path, s.pages[t.home].path),
			Body: p.body, Outline: p.outline, SwitchTag: t.other().Tag, HasTwin: p.twin != nil,
		}
		to := s.pages[t.other().contents]
		if p.twin != nil {
			to = p.twin
		}
		v.Switch = linkView{Text: t.other().Name, URL: relative(p.path, to.path)}
		for _, m := range menu {
			section := menuView{Title: m.title}
			for _, e := range m.entries {
				item := *link(e)
				item.Current, item.Below = e.page == p, e.below
				if e.page.tongue != t {
					item.Tag = e.page.tongue.Tag
				}
				section.Items = append(section.Items, item)
			}
			v.Sections = append(v.Sections, section)
		}
		if i > 0 {
			v.PreviousPage = link(order[i-1])
		}
		if i+1 < len(order) {
			v.NextPage = link(order[i+1])
		}
		var b bytes.Buffer
		if err := layout.Execute(&b, v); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		s.files[p.path] = b.Bytes()
	}
	return nil
}

// index makes what the search of a language's pages reads. It is a script that sets a variable, because a
// page from a file may not fetch. Pages that are in the other language alone are in it too.
func (s *site) index(t *tongue, menu []menuSection) error {
	found := [][4]string{} // the page's title, the address, the heading, the text
	for _, m := range menu {
		for _, e := range m.entries {
			for _, part := range e.page.sections {
				address := e.page.path
				if part.id != "" {
					address += "#" + part.id
				}
				found = append(found, [4]string{e.page.title, address, part.heading, part.text})
			}
		}
	}
	text, err := json.Marshal(found)
	s.files["search-"+t.Tag+".js"] = fmt.Appendf(nil, "var searchSections = %s;\n", text)
	return err
}

// copyAssets adds the files that are as they are: the pictures of pages are there already.
func (s *site) copyAssets() error {
	for _, name := range []string{"site.css", "site.js", "minisearch/index.js", "minisearch/LICENSE"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		s.files[name] = content
	}
	icon, err := fs.ReadFile(s.repo, "internal/dashboard/assets/favicon.svg")
	s.files["favicon.svg"] = icon
	return err
}
