package lua

// An instruction is 32 bits: a 6-bit opcode, A of 8, C and B of 9 bits each,
// or A and an 18-bit Bx. R(x) is a register, K(x) a constant, and RK(x) a
// constant when bit 8 of x is set and else a register.
type instr uint32

const (
	opMove      = iota // R(A) = R(B)
	opLoadK            // R(A) = K(Bx)
	opLoadBool         // R(A) = B; if C skip one
	opLoadNil          // R(A..B) = nil
	opGetUpval         // R(A) = U(B)
	opGetGlobal        // R(A) = G[K(Bx)]
	opGetTable         // R(A) = R(B)[RK(C)]
	opSetGlobal        // G[K(Bx)] = R(A)
	opSetUpval         // U(B) = R(A)
	opSetTable         // R(A)[RK(B)] = RK(C)
	opNewTable         // R(A) = {} with size hints B, C
	opSelf             // R(A+1) = R(B); R(A) = R(B)[RK(C)]
	opAdd              // R(A) = RK(B) + RK(C)
	opSub
	opMul
	opDiv
	opMod
	opPow
	opUnm    // R(A) = -R(B)
	opNot    // R(A) = not R(B)
	opLen    // R(A) = #R(B)
	opConcat // R(A) = R(B) .. ... .. R(C)
	opJmp    // pc += sBx
	opEq     // if (RK(B) == RK(C)) ~= A skip one
	opLt
	opLe
	opTest     // if R(A) is not C skip one
	opTestSet  // if R(B) is C then R(A) = R(B) else skip one
	opCall     // R(A..A+C-2) = R(A)(R(A+1..A+B-1))
	opTailCall // return R(A)(R(A+1..A+B-1))
	opReturn   // return R(A..A+B-2)
	opForLoop  // R(A) += R(A+2); if in range { pc += sBx; R(A+3) = R(A) }
	opForPrep  // R(A) -= R(A+2); pc += sBx
	opTForLoop // R(A+3..A+2+C) = R(A)(R(A+1), R(A+2)); if not nil R(A+2) = R(A+3) else skip one
	opSetList  // R(A)[(C-1)*50+i] = R(A+i), 1 <= i <= B
	opClose    // close upvalues >= R(A)
	opClosure  // R(A) = closure of proto Bx; upvalues in the instructions after
	opVararg   // R(A..A+B-1) = vararg
)

const (
	maxBx     = 1<<18 - 1
	maxSBx    = maxBx >> 1
	maxA      = 255
	maxC      = 511
	constBit  = 256
	maxRK     = 255
	setBatch  = 50
	multRet   = -1
	maxRegs   = 250
	maxLocals = 200
	maxUpvals = 60
)

func (i instr) op() int  { return int(i & 63) }
func (i instr) a() int   { return int(i>>6) & 255 }
func (i instr) c() int   { return int(i>>14) & 511 }
func (i instr) b() int   { return int(i>>23) & 511 }
func (i instr) bx() int  { return int(i >> 14) }
func (i instr) sbx() int { return int(i>>14) - maxSBx }

func abc(op, a, b, c int) instr { return instr(op | a<<6 | c<<14 | b<<23) }
func abx(op, a, bx int) instr   { return instr(op | a<<6 | bx<<14) }

func (i *instr) setA(a int)     { *i = *i&^(255<<6) | instr(a)<<6 }
func (i *instr) setB(b int)     { *i = *i&^(511<<23) | instr(b)<<23 }
func (i *instr) setC(c int)     { *i = *i&^(511<<14) | instr(c)<<14 }
func (i *instr) setSBx(sbx int) { *i = *i&(1<<14-1) | instr(sbx+maxSBx)<<14 }
func (i *instr) setOp(op int)   { *i = *i&^63 | instr(op) }

// setsA reports whether an opcode writes R(A), for the tracing of names.
func setsA(op int) bool {
	switch op {
	case opSetGlobal, opSetUpval, opSetTable, opJmp, opEq, opLt, opLe,
		opReturn, opTForLoop, opSetList, opClose:
		return false
	}
	return true
}

// isTest reports whether an opcode is followed by a jump it may skip.
func isTest(op int) bool {
	switch op {
	case opEq, opLt, opLe, opTest, opTestSet, opTForLoop:
		return true
	}
	return false
}

// A proto is one compiled function. It never changes after compilation and
// is shared by all states.
type proto struct {
	code     []instr
	k        []value
	protos   []*proto
	lines    []int32
	locals   []localVar
	upNames  []string
	source   string // chunk name with its '=' or '@'
	chunk    string // chunk name as messages show it
	line     int
	nups     int
	nparams  int
	vararg   bool
	hasArg   bool // declares arg
	needsArg bool // and fills it
	maxStack int
	loaded   *loaded
}

// loaded is the size of a chunk that a script has compiled. It counts for the script while
// the script can reach any function of the chunk. A [Proto] has none.
type loaded struct {
	size int
	mark uint32
}

type localVar struct {
	name       string
	start, end int
}

// chunkID is how messages name a chunk in fewer than size bytes: the file, or
// the text's first line.
func chunkID(source string, size int) string {
	source = cString(source)
	if source == "" {
		return `[string ""]`
	}
	switch source[0] {
	case '=':
		if len(source) > size {
			source = source[:size]
		}
		return source[1:]
	case '@':
		source = source[1:]
		if limit := size - len(" '...' ") - 1; len(source) > limit {
			return "..." + source[len(source)-limit:]
		}
		return source
	}
	n := 0
	for n < len(source) && source[n] != '\n' && source[n] != '\r' {
		n++
	}
	limit := size - len(` [string "..."] `) - 1
	if n > limit {
		n = limit
	}
	if n < len(source) {
		return `[string "` + source[:n] + `..."]`
	}
	return `[string "` + source + `"]`
}
