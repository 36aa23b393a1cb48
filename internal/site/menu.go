package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
)

// A menuSection is a part of the menu, which is beside every page of a language.
type menuSection struct {
	title   string
	entries []entry
}

// An entry is a page in the menu.
type entry struct {
	page  *page
	label string
	below bool // it belongs to the entry above
}

// menu orders the pages of a language as its page of contents does. A page that several sections link to is in the
// last one, because the first lists tasks and the last is the reference. Links to a heading place no page.
func (s *site) menu(t *tongue) ([]menuSection, error) {
	contents := s.pages[t.contents]
	tree, source, err := s.parse(contents)
	if err != nil {
		return nil, err
	}
	menu := []menuSection{{title: t.start, entries: []entry{
		{page: s.pages[t.home], label: s.pages[t.home].title}, {page: contents, label: contents.title},
	}}}
	for block := tree.FirstChild(); block != nil; block = block.NextSibling() {
		if h, ok := block.(*ast.Heading); ok && h.Level == 2 {
			menu = append(menu, menuSection{title: plain(h, source)})
		}
		if len(menu) == 1 {
			continue
		}
		_, table := block.(*extension.Table)
		err := ast.Walk(block, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			l, ok := n.(*ast.Link)
			if !ok || !entering {
				return ast.WalkContinue, nil
			}
			p := s.pages[path.Join(path.Dir(contents.source), string(l.Destination))]
			if p == nil || listed(menu[len(menu)-1:], p) {
				return ast.WalkContinue, nil
			}
			for i := range menu {
				menu[i].entries = slices.DeleteFunc(menu[i].entries, func(e entry) bool { return e.page == p })
			}
			label := plain(l, source)
			if table {
				label = capital(label)
			}
			last := &menu[len(menu)-1]
			last.entries = append(last.entries, entry{page: p, label: label})
			return ast.WalkContinue, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(menu) > 1 {
		menu[1].title = t.guides // "I want to …" names tasks, and the menu names pages
	}
	return s.rest(t, menu)
}

// rest adds the pages that the page of contents doesn't list: a page of a directory below the page of its name,
// and pages outside docs/ at the end.
func (s *site) rest(t *tongue, menu []menuSection) ([]menuSection, error) {
	project := menuSection{title: t.project}
	for _, source := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[source]
		switch {
		case listed(menu, p) || p.twin != nil && p.tongue != t:
		case !strings.HasPrefix(source, "docs/"):
			project.entries = append(project.entries, entry{page: p, label: p.title})
		case !place(menu, p) && p.tongue == t:
			return nil, fmt.Errorf("%s: no section of %s lists it", source, t.contents)
		}
	}
	return append(menu, project), nil
}

// place puts docs/a/b.md below docs/a.md. If the titles are "A" and "A: b", or in Chinese "b的A", the label is "b".
func place(menu []menuSection, p *page) bool {
	for i := range menu {
		entries := menu[i].entries
		at := slices.IndexFunc(entries, func(e entry) bool { return e.page.source == path.Dir(p.source)+".md" })
		if at < 0 {
			continue
		}
		above := entries[at].page.title
		label := capital(strings.TrimSuffix(strings.TrimPrefix(p.title, above+": "), "的"+above))
		for at++; at < len(entries) && entries[at].below; at++ {
		}
		menu[i].entries = slices.Insert(entries, at, entry{page: p, label: label, below: true})
		return true
	}
	return false
}

func listed(menu []menuSection, p *page) bool {
	return slices.ContainsFunc(menu, func(m menuSection) bool {
		return slices.ContainsFunc(m.entries, func(e entry) bool { return e.page == p })
	})
}

// capital returns a label with a first letter in upper case.
func capital(label string) string {
	first, size := utf8.DecodeRuneInString(label)
	return string(unicode.ToUpper(first)) + label[size:]
}
