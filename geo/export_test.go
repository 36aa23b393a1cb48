package geo

import "time"

// SetSizes sets the size of a full cell in bytes, and the time after which another process
// takes over a split. Call it before Open.
func (xs *Indexes) SetSizes(bytes int, after time.Duration) { xs.most, xs.splitFor = bytes, after }

// SetClock sets the clock that decides which steps took too long. Call it before Open.
func (xs *Indexes) SetClock(now func() time.Time) { xs.now = now }

// Cells returns how many cells this process knows.
func (x *Index) Cells() int { return len(x.cells.now()) }

// CellOf returns the name of the cell for a member at a point.
func (x *Index) CellOf(member string, p Point) string {
	return x.cells.at(addressOf(placeOf(p), member)).String()
}

// KeysOfCell returns the keys of the cell for a member at a point.
func (x *Index) KeysOfCell(member string, p Point) []string {
	return x.keys(x.cells.at(addressOf(placeOf(p), member)), statePart, pointsPart, arrivingPart, leavingPart, leftPart)
}

// PointKeys returns the keys of the members of all cells.
func (x *Index) PointKeys() (all []string) {
	for _, c := range x.cells.now() {
		all = append(all, x.keys(c, pointsPart)...)
	}
	return all
}

// Kept returns the point that is kept for p.
func Kept(p Point) Point { return placeOf(p).point() }
