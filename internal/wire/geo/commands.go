package geo

import "github.com/redoubt-go/redoubt"

// Each command below runs a script. The header of the script documents its arguments and its reply.

// PutCmd is put.lua: move members within their cell.
func PutCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: putScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// AnnounceCmd is announce.lua: announce members that are to come to a cell.
func AnnounceCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: announceScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// ArriveCmd is arrive.lua: let announced members come to a cell, or withdraw them.
func ArriveCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: arriveScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// LeaveCmd is leave.lua: let a member leave its cell. This is when a member that moves to another has moved.
func LeaveCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: leaveScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// CloseCmd is close.lua: note that members which left have come to where they went.
func CloseCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: closeScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// WhereCmd is where.lua: say what a cell knows of members.
func WhereCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: whereScript, Keys: keys, Args: args, Flags: redoubt.ReadOnly}
}

// SearchCmd is search.lua: search a cell, and list the members that are announced to it or left it lately.
func SearchCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: searchScript, Keys: keys, Args: args, Flags: redoubt.ReadOnly}
}

// MemberCmd is member.lua: look up in which cell members are.
func MemberCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: memberScript, Keys: []string{key}, Args: args, Flags: redoubt.ReadOnly}
}

// AssignCmd is assign.lua: note that a member is in another cell, or in none.
func AssignCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: assignScript, Keys: []string{key}, Args: args, Flags: redoubt.Idempotent}
}

// RehomeCmd is rehome.lua: note that members are in a part of their cell, which was split.
func RehomeCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: rehomeScript, Keys: []string{key}, Args: args, Flags: redoubt.Idempotent}
}

// FreezeCmd is freeze.lua: stop changes of a cell that is full, to split it.
func FreezeCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: freezeScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// LoadCmd is load.lua: fill a part of a cell that is split, unless the part is in use.
func LoadCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: loadScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// SplitCmd is split.lua: let the parts of a cell take its place.
func SplitCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: splitScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}
