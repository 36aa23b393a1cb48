package rediscmd

import "strings"

// tips are what COMMAND says to proxies and clients of clusters: how a command's reply varies, where it goes, and how
// the replies of several servers become one. A command has its tips in this order.
var tips = []struct{ tip, commands string }{
	{"nondeterministic_output", "client|info client|list dump function|stats hrandfield hscan info lastsave latency|doctor latency|graph " +
		"latency|histogram latency|history latency|latest memory|doctor memory|malloc-stats memory|stats migrate object|encoding object|freq " +
		"object|idletime object|refcount pttl scan spop srandmember sscan time ttl xadd xautoclaim xclaim " +
		"xinfo|consumers xpending xtrim zrandmember zscan"},
	{"nondeterministic_output_order", "command command|docs command|info command|list function|list hgetall hkeys hvals module|list " +
		"sdiff sinter smembers sunion"},
	{"request_policy:all_nodes", "config|set latency|doctor latency|graph latency|histogram latency|history latency|latest latency|reset " +
		"script|flush script|load slowlog|get slowlog|len slowlog|reset"},
	{"request_policy:all_shards", "dbsize flushall flushdb function|delete function|flush function|kill function|load function|restore " +
		"function|stats info keys memory|doctor memory|malloc-stats memory|purge memory|stats ping randomkey script|exists script|kill wait"},
	{"request_policy:multi_shard", "del exists mget mset msetnx touch unlink"},
	{"request_policy:special", "scan"},
	{"response_policy:agg_logical_and", "script|exists"},
	{"response_policy:agg_min", "msetnx wait"},
	{"response_policy:agg_sum", "dbsize del exists slowlog|len touch unlink"},
	{"response_policy:all_succeeded", "config|set flushall flushdb function|delete function|flush function|load function|restore " +
		"latency|reset memory|purge mset ping script|flush script|load slowlog|reset"},
	{"response_policy:one_succeeded", "function|kill script|kill"},
	{"response_policy:special", "function|stats info latency|doctor latency|graph latency|histogram latency|history latency|latest " +
		"memory|doctor memory|malloc-stats memory|stats"},
	// These have it last.
	{"nondeterministic_output", "randomkey slowlog|get slowlog|len"},
	{"nondeterministic_output_order", "keys"},
}

var tipsOf = func() map[string][]string {
	of := make(map[string][]string)
	for _, t := range tips {
		for name := range strings.FieldsSeq(t.commands) {
			of[name] = append(of[name], t.tip)
		}
	}
	return of
}()

// Tips returns what COMMAND tells proxies and clients of clusters about the command.
func (c *Command) Tips() []string { return tipsOf[c.Name] }
