package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads documents as GitHub does. The documents are ours, so their HTML stays.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, extension.NewCJK(extension.WithEastAsianLineBreaks())),
	goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(code{}, 1))),
)

func (s *site) parse(p *page) (ast.Node, []byte, error) {
	source, err := fs.ReadFile(s.repo, p.source)
	if err != nil {
		return nil, nil, err
	}
	return markdown.Parser().Parse(text.NewReader(source)), source, nil
}

// read makes the body of a page and what else the site shows of it.
func (s *site) read(p *page) error {
	tree, source, err := s.parse(p)
	if err != nil {
		return err
	}
	cut(p, tree)
	p.sections = []section{{}}
	used := map[string]int{} // anchors
	for block := tree.FirstChild(); block != nil; block = block.NextSibling() {
		last := &p.sections[len(p.sections)-1]
		h, ok := block.(*ast.Heading)
		if !ok {
			last.text = strings.TrimSpace(last.text + " " + plain(block, source))
			continue
		}
		name := plain(h, source)
		id := anchor(name)
		if used[id]++; used[id] > 1 {
			id += "-" + strconv.Itoa(used[id]-1)
		}
		h.SetAttributeString("id", []byte(id))
		if h.Level == 1 && p.title == "" {
			p.title = name
			continue
		}
		p.sections = append(p.sections, section{id: id, heading: name})
		if h.Level == 2 {
			p.outline = append(p.outline, heading{id, name})
		}
		link := ast.NewLink()
		link.Destination = []byte("#" + id)
		link.SetAttributeString("class", []byte("anchor"))
		link.SetAttributeString("aria-hidden", []byte("true"))
		link.SetAttributeString("tabindex", []byte("-1"))
		link.AppendChild(link, ast.NewString([]byte("#")))
		h.AppendChild(h, link)
	}
	if p.title == "" {
		return fmt.Errorf("%s has no heading of level 1", p.source)
	}
	if err := s.redirect(p, tree); err != nil {
		return err
	}
	var b bytes.Buffer
	err = markdown.Renderer().Render(&b, source, tree)
	p.body = template.HTML(b.String())
	return err
}

// cut removes what readers of the site should not see: comments, and the line that leads to the page in the other
// language, because every page of the site has a switch.
func cut(p *page, tree ast.Node) {
	var out []ast.Node
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if n.HTMLBlockType == ast.HTMLBlockType2 {
				out = append(out, n)
			}
		case *ast.Paragraph:
			l, ok := n.FirstChild().(*ast.Link)
			if ok && n.ChildCount() == 1 && p.twin != nil && path.Join(path.Dir(p.source), string(l.Destination)) == p.twin.source {
				out = append(out, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range out {
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// redirect makes the links of a page lead where its document's lead, and takes its pictures along.
func (s *site) redirect(p *page, tree ast.Node) error {
	var faults []error
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to, err := s.target(p, string(n.Destination))
			n.Destination = []byte(to)
			faults = append(faults, err)
		case *ast.Image:
			file := path.Join(path.Dir(p.source), string(n.Destination))
			picture, err := fs.ReadFile(s.repo, file)
			if err != nil {
				err = fmt.Errorf("%s: the picture %s: %w", p.source, n.Destination, err)
			}
			s.files[file] = picture
			faults = append(faults, err)
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(faults...)
}

// target returns where the link of a page leads on the site: to a page, or to a file of the repository.
func (s *site) target(p *page, link string) (string, error) {
	name, anchor, hasAnchor := strings.Cut(link, "#")
	if name == "" || strings.Contains(name, ":") {
		return link, nil
	}
	file := path.Join(path.Dir(p.source), name)
	to := ""
	if other := s.pages[file]; other != nil {
		to = relative(p.path, other.path)
	} else {
		info, err := fs.Stat(s.repo, file)
		if err != nil {
			return "", fmt.Errorf("%s: the link %s: %w", p.source, link, err)
		}
		kind := "blob"
		if info.IsDir() {
			kind = "tree"
		}
		to = s.address + "/" + kind + "/main/" + file
	}
	if hasAnchor {
		to += "#" + anchor
	}
	return to, nil
}

// anchor returns GitHub's name of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Pc):
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// plain returns the text of a node without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
			} else if last, _ := utf8.DecodeLastRuneInString(b.String()); (n.SoftLineBreak() || n.HardLineBreak()) && !unicode.Is(unicode.Han, last) {
				b.WriteByte(' ')
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock { // a cell of a table, too
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
