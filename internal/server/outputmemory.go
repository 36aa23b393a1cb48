package server

// trim gives back the memory of an output that nothing waits in.
func (o *output) trim() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.writing && len(o.buf) == 0 && cap(o.buf)+cap(o.spare) > 0 {
		o.buf, o.spare = nil, nil
		o.count()
	}
}
