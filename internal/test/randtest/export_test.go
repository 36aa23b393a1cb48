package randtest

// WatchWithin is Watch with another limit.
var WatchWithin = watchWithin
