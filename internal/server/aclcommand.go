package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// answersACL reports whether this server answers ACL itself, because the users are its own. Without Users, the
// one server behind it answers ACL.
func (s *Server) answersACL() bool {
	return s.opts.Pool != nil || s.opts.Sessions != nil || len(s.opts.Users) > 0
}

// aclCommand answers the subcommands of ACL that change no user.
func aclCommand(c *session, args [][]byte, _ []byte) {
	sub := strings.ToUpper(string(args[1]))
	answer, known := aclAnswers[sub]
	switch {
	case !known:
		c.reject("ERR unknown command 'ACL " + sub + "': redoubt does not support it, because its users are in its configuration")
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
	make        func(c *session, args [][]byte) []byte
}{
	"WHOAMI":  {0, 0, func(c *session, _ [][]byte) []byte { return resp.AppendBulk(nil, userOf(c)) }},
	"CAT":     {0, 1, aclCat},
	"USERS":   {0, 0, func(c *session, _ [][]byte) []byte { return appendBulks(nil, c.srv.users.Load().names()) }},
	"LIST":    {0, 0, aclList},
	"GETUSER": {1, 1, aclGetUser},
	"DRYRUN":  {2, 1 << 20, aclDryRun},
	"LOG":     {0, 1, aclLogCommand},
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

func aclList(c *session, _ [][]byte) []byte {
	u := c.srv.users.Load()
	var lines []string
	for _, name := range u.names() {
		lines = append(lines, u.byName[name].Line())
	}
	return appendBulks(nil, lines)
}

func aclGetUser(c *session, args [][]byte) []byte {
	u := c.srv.users.Load().byName[string(args[0])]
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
	u := c.srv.users.Load().byName[string(args[0])]
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
	case refusal == "":
		return okRaw
	case r.denial.Loggable():
		return resp.AppendBulk(nil, r.denial.DryRun())
	default:
		return resp.AppendError(nil, refusal)
	}
}
