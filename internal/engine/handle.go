package engine

// A Handle lets a public package hold an engine without an exported method that shows it. A public
// type embeds a Handle under an unexported name; [Of] then finds the engine.
type Handle struct{ e *Engine }

// NewHandle returns a handle of e.
func NewHandle(e *Engine) Handle { return Handle{e} }

func (h Handle) handled() *Engine { return h.e }

// Of returns the engine that holder has a [Handle] of.
func Of(holder interface{ handled() *Engine }) *Engine { return holder.handled() }
