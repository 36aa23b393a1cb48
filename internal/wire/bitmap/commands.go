package bitmap

import "github.com/redoubt-go/redoubt"

// Each command below runs a script. The header of the script documents its arguments and its reply.

// CalendarMarkCmd is calendar_mark.lua: mark days of a calendar, or unmark them.
func CalendarMarkCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: calendarMarkScript, Keys: []string{key}, Args: args}
}

// MapSetCmd is map_set.lua: set bits of a shard, or clear them.
func MapSetCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mapSetScript, Keys: []string{key}, Args: args}
}

// MapIndexCmd is map_index.lua: tell the index that a map has shards.
func MapIndexCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mapIndexScript, Keys: []string{key}, Args: args, Flags: redoubt.Idempotent}
}

// MapDropCmd is map_drop.lua: remove deleted shards from the index, unless they were made anew.
func MapDropCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mapDropScript, Keys: []string{key}, Args: args, Flags: redoubt.Idempotent}
}

// MapExpireCmd is map_expire.lua: set when a map expires.
func MapExpireCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mapExpireScript, Keys: []string{key}, Args: args, Flags: redoubt.Idempotent}
}

// MapCombineCmd is map_combine.lua: combine shards of several maps.
func MapCombineCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mapCombineScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// RecordUpdateCmd is record_update.lua: make all changes of a record, or none.
func RecordUpdateCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: recordUpdateScript, Keys: []string{key}, Args: args}
}
