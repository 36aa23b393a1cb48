package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// TestReplicasAnswerReaders: a replica is asked for what only reads, but not for cursors and scripts.
func TestReplicasAnswerReaders(t *testing.T) {
	for names, want := range map[string]bool{
		"get mget hgetall zrange xread xpending exists sort_ro georadius_ro lcs httl pfcount":      true,
		"set del sort georadius getex lpop xreadgroup hset pfadd restore":                          false,
		"scan sscan hscan zscan eval_ro evalsha_ro fcall_ro touch keys dbsize randomkey ping info": false,
	} {
		for name := range strings.FieldsSeq(names) {
			if k := keySpecs[name]; k.reads != want {
				t.Errorf("%s: %t", name, k.reads)
			}
		}
	}
	readers := 0
	for _, k := range keySpecs {
		if k.reads {
			readers++
		}
		if k.reads && (k.Has(rediscmd.Write) || !k.Keyed()) {
			t.Errorf("%s has the flags %v", k.name, k.Flags.Names())
		}
	}
	if readers < 70 {
		t.Errorf("%d commands", readers)
	}
}

// TestPoolsListCommands: what pools do with single commands is said by names of the table.
func TestPoolsListCommands(t *testing.T) {
	for list, names := range map[string][]string{
		"fragments": slices.Collect(maps.Keys(fragments)), "fanOut": slices.Collect(maps.Keys(fanOut)),
		"notInPools": slices.Collect(maps.Keys(notInPools)), "transactional": slices.Collect(maps.Keys(transactional)),
		"pubsubFamilies": slices.Collect(maps.Keys(pubsubFamilies)), "smallReplies": slices.Collect(maps.Keys(smallReplies)),
		"twemproxy": slices.Collect(maps.Keys(twemproxy)),
	} {
		for _, name := range names {
			if rediscmd.Lookup(strings.ReplaceAll(name, " ", "|")) == nil {
				t.Errorf("%s has %s, which is no command", list, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s is empty", list)
		}
	}
	for sub := range clientInPools {
		if rediscmd.Lookup("client|"+sub) == nil {
			t.Errorf("clientInPools has %s, which is no subcommand", sub)
		}
	}
}
