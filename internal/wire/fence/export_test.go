package fence

// Wrapped is how many scripts are kept in their guarded form.
func Wrapped() (n int) {
	wrapped.Range(func(any, any) bool { n++; return true })
	return n
}
