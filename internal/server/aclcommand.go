package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// answersACL reports whether this server answers ACL itself, because the users are its own. Without Users, the
// one server behind it answers ACL.
func (s *Server) answersACL() bool {
	return s.opts.Pool != nil || s.opts.Sessions != nil || len(s.opts.Users) > 0
}

// aclCommand answers ACL. Only on an engine may clients change users: elsewhere these are in the configuration.
func aclCommand(c *session, args [][]byte, _ []byte) {
	sub := strings.ToUpper(string(args[1]))
	answer, known := aclAnswers[sub]
	switch {
	case !known:
		c.reject(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try ACL HELP.", args[1]))
		return
	case answer.changes && c.srv.opts.Sessions == nil:
		c.reject("ERR unknown command 'ACL " + sub + "': redoubt does not support it, because its users are in its configuration")
		return
	case answer.changes && c.tx.active:
		c.refuseQueued("ACL " + sub)
		return
	case len(args)-2 > answer.most && answer.least < answer.most: // as Redis has it
		c.reject(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try ACL HELP.", args[1]))
		return
	case len(args)-2 < answer.least || len(args)-2 > answer.most:
		c.reject("ERR wrong number of arguments for 'acl|" + strings.ToLower(sub) + "' command")
		return
	}
	reply := answer.make(c, args[2:])
	switch {
	case reply[0] == '-':
		c.reject(strings.TrimSuffix(string(reply[1:]), "\r\n"))
	case c.tx.active:
		c.queueAnswer(reply)
	default:
		c.reply(reply)
	}
}

// aclAnswers make the replies to the subcommands of ACL that take least to most arguments.
var aclAnswers = map[string]struct {
	least, most int
	changes     bool // the users
	make        func(c *session, args [][]byte) []byte
}{
	"WHOAMI":  {0, 0, false, func(c *session, _ [][]byte) []byte { return resp.AppendBulk(nil, userOf(c)) }},
	"CAT":     {0, 1, false, aclCat},
	"USERS":   {0, 0, false, func(c *session, _ [][]byte) []byte { return appendBulks(nil, c.srv.users.Load().names()) }},
	"LIST":    {0, 0, false, func(c *session, _ [][]byte) []byte { return appendBulks(nil, c.srv.users.Load().lines()) }},
	"GETUSER": {1, 1, false, aclGetUser},
	"DRYRUN":  {2, 1 << 20, false, aclDryRun},
	"LOG":     {0, 1, false, aclLogCommand},
	"GENPASS": {0, 1, false, aclGenPass},
	"HELP":    {0, 0, false, aclHelp},
	"SETUSER": {1, 1 << 20, true, aclSetUser},
	"DELUSER": {1, 1 << 20, true, aclDelUser},
	"LOAD":    {0, 0, true, aclLoad},
	"SAVE":    {0, 0, true, aclSave},
}

func (u *users) names() []string { return slices.Sorted(maps.Keys(u.byName)) }

func appendBulks(dst []byte, all []string) []byte {
	dst = resp.AppendArray(dst, len(all))
	for _, s := range all {
		dst = resp.AppendBulk(dst, s)
	}
	return dst
}

func aclCat(_ *session, args [][]byte) []byte {
	if len(args) == 0 {
		return appendBulks(nil, acl.Categories())
	}
	names := acl.In(string(args[0]))
	if names == nil {
		return resp.AppendError(nil, fmt.Sprintf("ERR Unknown category '%.128s'", args[0]))
	}
	return appendBulks(nil, names)
}

func aclGetUser(c *session, args [][]byte) []byte {
	u := c.srv.users.Load().byName[string(args[0])].user()
	if u == nil {
		return resp.AppendNull(nil, c.protocol)
	}
	d := u.Describe()
	dst := resp.AppendMap(nil, c.protocol, 6)
	dst = resp.AppendSet(resp.AppendBulk(dst, "flags"), c.protocol, len(d.Flags))
	for _, f := range d.Flags {
		dst = resp.AppendBulk(dst, f)
	}
	dst = appendBulks(resp.AppendBulk(dst, "passwords"), d.Passwords)
	dst = resp.AppendArray(resp.AppendBulk(appendRights(dst, d.Rights), "selectors"), len(d.Selectors))
	for _, r := range d.Selectors {
		dst = appendRights(resp.AppendMap(dst, c.protocol, 3), r)
	}
	return dst
}

func appendRights(dst []byte, r acl.Rights) []byte {
	for _, field := range [][2]string{{"commands", r.Commands}, {"keys", r.Keys}, {"channels", r.Channels}} {
		dst = resp.AppendBulk(resp.AppendBulk(dst, field[0]), field[1])
	}
	return dst
}

// aclDryRun answers ACL DRYRUN user command …: OK, or why the user may not run the command.
func aclDryRun(c *session, args [][]byte) []byte {
	u := c.srv.users.Load().byName[string(args[0])].user()
	if u == nil {
		return resp.AppendError(nil, fmt.Sprintf("ERR User '%.128s' not found", args[0]))
	}
	args = args[1:]
	k, h := lookupKeys(args[0]), c.srv.lookup(args[0])
	if k == nil && (h == nil || h.command == nil) {
		return resp.AppendError(nil, fmt.Sprintf("ERR Command '%.128s' not found", args[0]))
	}
	if u.MayAll() {
		return okRaw
	}
	r := rights{user: u}
	switch refusal := r.refusal(k, h, args); {
	case refusal == "", refusal == hiddenKeys: // as in Redis
		return okRaw
	case r.denial.Loggable():
		return resp.AppendBulk(nil, r.denial.DryRun())
	default:
		return resp.AppendError(nil, refusal)
	}
}

func aclSetUser(c *session, args [][]byte) []byte {
	rules := make([]string, len(args)-1)
	for i, a := range args[1:] {
		rules[i] = string(a)
	}
	if err := c.srv.setUser(c, string(args[0]), rules); err != nil {
		return resp.AppendError(nil, err.Error())
	}
	return okRaw
}

func aclDelUser(c *session, args [][]byte) []byte {
	names := make([]string, len(args))
	for i, a := range args {
		if names[i] = string(a); names[i] == c.srv.standardUser() {
			return resp.AppendError(nil, "ERR The '"+names[i]+"' user cannot be removed")
		}
	}
	return resp.AppendInt(nil, int64(c.srv.removeUsers(c, names)))
}

// aclGenPass answers with random hexadecimal digits.
func aclGenPass(_ *session, args [][]byte) []byte {
	const most = 4096
	bits := int64(256)
	if len(args) > 0 {
		var err error
		if bits, err = strconv.ParseInt(string(args[0]), 10, 64); err != nil {
			return resp.AppendError(nil, "ERR value is not an integer or out of range")
		}
	}
	if bits <= 0 || bits > most {
		return resp.AppendError(nil, fmt.Sprintf("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d", most))
	}
	var random [most / 8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return resp.AppendBulk(nil, hex.EncodeToString(random[:])[:(bits+3)/4])
}

const noUserFile = "ERR This Redis instance is not configured to use an ACL file. Name one by --aclfile, or in Options.UserFile"

func aclLoad(c *session, _ [][]byte) []byte {
	if c.srv.opts.UserFile == "" {
		return resp.AppendError(nil, noUserFile)
	}
	if err := c.srv.loadUsers(); err != nil {
		return resp.AppendError(nil, "ERR "+err.Error()+"; the users stay as they were")
	}
	return okRaw
}

func aclSave(c *session, _ [][]byte) []byte {
	if c.srv.opts.UserFile == "" {
		return resp.AppendError(nil, noUserFile)
	}
	if c.srv.opts.Password != "" {
		return resp.AppendError(nil, "ERR the user '"+c.srv.standardUser()+"' has its password from the server's settings, so the file could not be read back: put that user into the file, and leave the setting out")
	}
	if err := c.srv.saveUsers(); err != nil {
		c.srv.opts.Logger.Error("ACL SAVE failed", slog.Any("error", err))
		return resp.AppendError(nil, "ERR There was an error trying to save the ACLs. Please check the server logs for more information")
	}
	return okRaw
}

func aclHelp(*session, [][]byte) []byte {
	dst := resp.AppendArray(nil, len(aclHelpLines))
	for _, line := range aclHelpLines {
		dst = resp.AppendSimple(dst, line)
	}
	return dst
}

var aclHelpLines = []string{
	"ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"CAT [<category>]",
	"    List all commands that belong to <category>, or all command categories",
	"    when no category is specified.",
	"DELUSER <username> [<username> ...]",
	"    Delete a list of users.",
	"DRYRUN <username> <command> [<arg> ...]",
	"    Returns whether the user can execute the given command without executing the command.",
	"GETUSER <username>",
	"    Get the user's details.",
	"GENPASS [<bits>]",
	"    Generate a secure 256-bit user password. The optional `bits` argument can",
	"    be used to specify a different size.",
	"LIST",
	"    Show users details in config file format.",
	"LOAD",
	"    Reload users from the ACL file.",
	"LOG [<count> | RESET]",
	"    Show the ACL log entries.",
	"SAVE",
	"    Save the current config to the ACL file.",
	"SETUSER <username> <attribute> [<attribute> ...]",
	"    Create or modify a user with the specified attributes.",
	"USERS",
	"    List all the registered usernames.",
	"WHOAMI",
	"    Return the current connection username.",
	"HELP",
	"    Prints this help.",
}
