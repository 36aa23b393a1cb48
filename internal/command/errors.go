package command

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

const (
	errSyntax  = "ERR syntax error" // explained adds what the command takes
	errInteger = "ERR value is not an integer or out of range"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

// docSyntax documents errSyntax.
const docSyntax = "`" + errSyntax + "…; want …`: it shows the syntax, as above"

// syntaxAt is errSyntax at a word that is not an option of the command, comes a second time or
// has no value.
func syntaxAt(word []byte) string { return fmt.Sprintf("%s at %.40q", errSyntax, word) }

// explained makes the syntax errors of our own commands show what each takes. The commands of
// modules keep the modules' errors.
func explained(commands []*Command) []*Command {
	for _, c := range commands {
		if c.Module {
			continue
		}
		plan := c.Plan
		c.Plan = func(env *Env, args [][]byte) Plan {
			p := plan(env, args)
			if strings.HasPrefix(p.Err, errSyntax) {
				p.Err += "; want " + c.Syntax()
			}
			return p
		}
	}
	return commands
}

// appendError appends an error of the library, or of a script, as the error of a command.
func appendError(dst []byte, err error) []byte {
	if se, ok := errors.AsType[redoubt.ServerError](err); ok {
		return resp.AppendError(dst, cleanScriptError(string(se)))
	}
	return resp.AppendError(dst, faultOf(err))
}

// packageName begins an error of the library, and those within it: it is for programs in Go.
var packageName = regexp.MustCompile(`(?m)(^|: )(?:(?:redoubt|lock|ratelimit|fence|queue|stock|bloom|ttlhash|geo): )+`)

// faultOf is the text of the error reply for an error of the library, on one line.
func faultOf(err error) string {
	return "ERR redoubt: " + strings.ReplaceAll(packageName.ReplaceAllString(err.Error(), "$1"), "\n", "; ")
}

// refusal is the plan of a command that the library refuses.
func refusal(err error) Plan { return Plan{Err: faultOf(err)} }

// cleanScriptError takes off what the server adds to an error inside a script:
// Redis 7 appends " script: <digest>, on @user_script:12.", and before that
// prefixed "ERR Error running script (call to f_<digest>): @user_script:12: ".
func cleanScriptError(text string) string {
	if i := strings.Index(text, " script: "); i >= 0 && strings.Contains(text[i:], ", on @") {
		text = text[:i]
	}
	if strings.HasPrefix(text, "ERR Error running script") || strings.HasPrefix(text, "ERR Error compiling script") {
		if _, inner, ok := strings.Cut(text, "@user_script: "); ok { // 12: @user_script: 12: WRONGTYPE …
			text = inner
		}
		if i := strings.Index(text, "WRONGTYPE "); i >= 0 {
			return wrongType
		}
	}
	return text
}

// integer reads a 64-bit integer as Redis does.
func integer(b []byte) (int64, bool) { return resp.ParseInt(b) }

// milliseconds reads a number of milliseconds between least and most. The
// error is the text of an error reply.
func milliseconds(name string, b []byte, least, most int64) (int64, string) {
	n, ok := integer(b)
	if !ok {
		return 0, errInteger
	}
	if n < least || n > most {
		return 0, fmt.Sprintf("ERR redoubt: %s is %d; want %d to %d", name, n, least, most)
	}
	return n, ""
}
