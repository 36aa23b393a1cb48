package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// errorStats counts error replies by their codes, for INFO: to commands, also inside transactions.
// It leaves out errors that a script caught.
type errorStats struct {
	total  atomic.Int64
	mu     sync.Mutex
	byCode map[string]int64
}

// mostCodes and longestCode bound the codes, which scripts can make up.
const (
	mostCodes   = 128
	longestCode = 32
)

// count notes an error reply.
func (es *errorStats) count(reply []byte) {
	es.total.Add(1)
	code := reply[1:]
	if end := bytes.IndexAny(code, " \r"); end >= 0 {
		code = code[:end]
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.byCode == nil {
		es.byCode = map[string]int64{}
	}
	if _, known := es.byCode[text(code)]; known || len(es.byCode) < mostCodes && len(code) <= longestCode {
		es.byCode[string(code)]++
	}
}

func (es *errorStats) reset() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.total.Store(0)
	es.byCode = nil
}

func (e *Engine) infoErrors(_ *call, b *strings.Builder) {
	e.errors.mu.Lock()
	defer e.errors.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(e.errors.byCode)) {
		fmt.Fprintf(b, "errorstat_%s:count=%d\r\n", code, e.errors.byCode[code])
	}
}
