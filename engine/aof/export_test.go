package aof

// EachRecord is eachRecord for tests.
var EachRecord = eachRecord
