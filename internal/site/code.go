package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// code renders fenced code: its language, its comments and strings, and what a reader types. The classes are in
// site.css. Chroma would mark more, and takes 7 s of processor time to build, which `make test` would pay too.
type code struct{}

// RegisterFuncs is called by goldmark.
func (code) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, fence)
}

func fence(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	f := n.(*ast.FencedCodeBlock)
	language := string(f.Language(source))
	_, err := fmt.Fprintf(w, "<pre data-language=\"%s\" tabindex=\"0\"><code>%s</code></pre>\n", escape(language), marked(language, string(f.Lines().Value(source))))
	return ast.WalkContinue, err
}

func escape(text string) string { return string(util.EscapeHTML([]byte(text))) }

const quoted = "\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])*'"

var (
	slashes = regexp.MustCompile("(?P<comment>//.*)|(?P<string>" + quoted + "|`[^`]*`)")
	hashes  = regexp.MustCompile(`(?m)(?P<comment>(?:^|\s)#.*)|(?P<string>` + quoted + ")")
	dashes  = regexp.MustCompile("(?P<comment>--.*)|(?P<string>" + quoted + ")")

	// The names of groups are classes.
	marks = map[string]*regexp.Regexp{
		"go": slashes, "js": slashes, "python": hashes, "sh": hashes, "yaml": hashes, "lua": dashes,
		"redis": regexp.MustCompile("(?m)(?P<typed>^> .*)"), "console": regexp.MustCompile(`(?m)(?P<typed>^\$ .*)`),
	}
)

// marked returns a snippet as HTML.
func marked(language, text string) string {
	mark := marks[language]
	if mark == nil {
		return escape(text)
	}
	var b strings.Builder
	end := 0
	for _, m := range mark.FindAllStringSubmatchIndex(text, -1) {
		class := mark.SubexpNames()[1]
		if m[2] < 0 {
			class = mark.SubexpNames()[2]
		}
		fmt.Fprintf(&b, `%s<span class="%s">%s</span>`, escape(text[end:m[0]]), class, escape(text[m[0]:m[1]]))
		end = m[1]
	}
	return b.String() + escape(text[end:])
}
