// Package assets holds the page of the dashboard: plain ES modules, style sheets, texts in English and
// Chinese, and uPlot with its licence. Nothing is built or bundled, so `go install` needs no Node.
package assets

import "embed"

// Files has the files of the page; index.html is at its root. The page refers to the others
// as assets/PATH, relative to its own address.
//
//go:embed index.html favicon.svg css i18n js libs
var Files embed.FS
