//go:build !unix

package engine

import "strings"

// infoCPU writes nothing where the system doesn't tell.
func (e *Engine) infoCPU(*call, *strings.Builder) {}
