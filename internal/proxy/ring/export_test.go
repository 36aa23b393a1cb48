package ring

// For the tests.
var PointsOf = pointsOf

// Sum is what h computes.
func Sum(h Hash, key []byte) uint32 { return functions[h](key) }
