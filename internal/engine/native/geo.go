package native

import "github.com/redoubt-go/redoubt/internal/engine"

var (
	wordState  = word("state")
	wordSplit  = word("split")
	wordFrozen = word("frozen")
)

// mostMoved is how many members geoPut moves by itself.
const mostMoved = 8

// geoPut is geo/lua/put.lua for a few members of a cell that takes them.
func geoPut(tx *engine.Tx) bool {
	n := len(tx.Args) / 2
	if len(tx.Keys) != 2 || len(tx.Args)%2 != 0 || n > mostMoved {
		return false
	}
	points := tx.Keys[1]
	for i := range n {
		if _, ok := whole(tx.Args[2*i+1]); !ok {
			return false
		}
	}
	v := tx.Do(cmdHmget, tx.Keys[0], wordState)
	v.Elements()
	state, there := v.Bulk()
	if string(state) == string(wordSplit) || string(state) == string(wordFrozen) {
		return false
	}
	var here [mostMoved]int64
	for i := range n {
		member, score := tx.Args[2*i], tx.Args[2*i+1]
		v := tx.Do(cmdZscore, points, member)
		if _, is := v.Bulk(); is {
			tx.Do(cmdZadd, points, score, member)
			here[i] = 1
		}
	}
	status := int64(3)
	if there {
		status = 1
	}
	tx.Array(1 + n)
	tx.Int(status)
	for _, is := range here[:n] {
		tx.Int(is)
	}
	return true
}
