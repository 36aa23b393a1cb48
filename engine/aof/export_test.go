package aof

// LimitFrames makes frames shorter.
func (l *Log) LimitFrames(bytes int) { l.mostFrame = bytes }

// EachRecord is eachRecord for tests.
var EachRecord = eachRecord
