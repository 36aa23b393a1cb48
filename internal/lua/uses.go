package lua

// A Use is something in the code of a script that a check of its style may
// want to know.
type Use struct {
	Kind   UseKind
	Global string // the name, for the kinds about globals
	Line   int
}

// UseKind is a kind of [Use].
type UseKind uint8

// The kinds of [Use].
const (
	ReadsGlobal  UseKind = iota
	SetsGlobal           // also by the declaration of a function
	Concatenates         // by the operator ..
)

// Uses returns what the script's code does of these kinds, without running it.
func (p *Proto) Uses() []Use { return p.main.uses(nil) }

func (p *proto) uses(found []Use) []Use {
	for at, i := range p.code {
		u := Use{Line: int(p.lines[at])}
		switch i.op() {
		case opGetGlobal:
			u.Kind = ReadsGlobal
		case opSetGlobal:
			u.Kind = SetsGlobal
		case opConcat:
			u.Kind = Concatenates
		default:
			continue
		}
		if u.Kind != Concatenates {
			if name, ok := p.k[i.bx()].o.(*str); ok {
				u.Global = name.s
			}
		}
		found = append(found, u)
	}
	for _, inner := range p.protos {
		found = inner.uses(found)
	}
	return found
}
