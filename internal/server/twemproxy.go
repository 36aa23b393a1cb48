package server

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed twemproxy.txt
var twemproxyText string

// twemproxy are the commands that it takes, and with how many arguments: the least, and
// the most or -1.
var twemproxy = parseTwemproxy(twemproxyText)

func parseTwemproxy(text string) map[string][2]int {
	takes := make(map[string][2]int)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var n [2]int
		if _, err := fmt.Sscanf(line, "%s %d %d", &name, &n[0], &n[1]); err != nil {
			panic("server: twemproxy.txt: " + line)
		}
		takes[name] = n
	}
	return takes
}

// strictly closes the client without a reply, as twemproxy does, when it sent what
// that doesn't take. It reports whether it did. Replies to what came before still leave.
func (c *pooled) strictly(k *keySpec, args [][]byte) bool {
	if k != nil && !c.scanner.Inline() {
		n, ok := twemproxy[k.name]
		given := len(args) - 1
		if ok && given >= n[0] && (n[1] < 0 || given <= n[1]) && (k.name != "mset" || given%2 == 0) {
			return false
		}
	}
	c.countLocal()
	c.broke()
	c.quit = true
	return true
}
