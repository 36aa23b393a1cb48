package attack

// behind are the topologies with servers behind the target.
var behind = []topology{redis, pool, sentinel, cluster}

var embedded = []topology{engine, durable, encrypted}

// held and bounded are what clients may hold together, and the process' memory with
// that by docs/engine.md: twice as much and 64 MiB, and here 192 MiB for the values
// of victims and attackers and for their sockets' buffers.
var held = []string{"--maxmemory-clients=256MiB"}

const bounded = 2*256 + 64 + 192

var attacks = []attack{
	{
		name: "hungry scripts", on: embedded, memory: 1536, attempt: eatsMemory, serve: held,
		tries: "scripts that keep substrings, compiled code, coroutines, tables and results of natives, six at once",
		holds: "a script is ended at its limit of memory",
	},
	{
		name: "many scripts at once", on: embedded, memory: 1024, attempt: manyAtOnce,
		tries: "sixty scripts at once, each of 30 to 54 MB",
		holds: "the sum of what scripts hold has a bound",
	},
	{
		name: "endless scripts", on: embedded, memory: 1024, attempt: neverEnds,
		tries: "scripts that stay in natives (patterns, sort, sha1hex, cjson, concat, loadstring, colliding keys), each with SCRIPT KILL",
		holds: "SCRIPT KILL ends each",
	},
	{
		name: "endless scripts, not stopped", on: embedded, memory: 1024, attempt: leftAlone,
		tries: "the same on keys of their own, until SIGTERM",
		holds: "others go on",
	},
	{
		name: "scripts that are hard to compile", on: embedded, memory: 1024, attempt: compiles,
		tries: "sources of 100,000 to 300,000 nested or chained parts, by EVAL, SCRIPT LOAD and loadstring",
		holds: "each is compiled or refused",
	},
	{
		name: "many different scripts", on: embedded, memory: 1024, attempt: fillsScripts,
		tries: "scripts of up to 800 KB that come once each, by EVAL and SCRIPT LOAD",
		holds: "what is kept of scripts has a bound",
	},
	{
		name: "extreme numbers", on: all, memory: 1536, attempt: extremeNumbers,
		tries: "every command that COMMAND lists with numbers at which something overflows",
		holds: "each command that does not block has a reply within 20 s",
	},
	{
		name: "patterns", on: embedded, memory: 512, attempt: globs,
		tries: "patterns of 100,000 stars or brackets in KEYS, SCAN, HSCAN, CONFIG GET, PSUBSCRIBE with PUBLISH",
		holds: "each has a reply within 20 s",
	},
	{
		name: "RESTORE", on: embedded, memory: 1024, attempt: restores,
		tries: "payloads that unpack to a thousand times their size, or announce more than they have",
		holds: "each is taken or refused",
	},
	{
		name: "announcements", on: all, memory: bounded, attempt: announces, serve: held,
		tries: "headers of a million arguments or of 512 MB with nothing behind them, lines without end, HTTP, TLS",
		holds: "memory is taken as bytes come",
	},
	{
		name: "half arguments", on: all, memory: bounded, attempt: halfBulks, serve: held,
		tries: "forty clients that send 32 MB of an argument of 512 MB, and stop",
		holds: "the promises for all",
	},
	{
		name: "damaged commands", on: all, memory: 512, attempt: garbles,
		tries: "random bytes, and valid commands of every kind of state with bytes changed, cut, doubled",
		holds: "no state and no reply reaches another client",
	},
	{
		name: "without the password", on: all, memory: 512, attempt: strangers, serve: []string{"--password=" + secret},
		tries: "clients without the password that announce, guess and send commands",
		holds: "none of them is run",
	},
	{
		name: "slow readers", on: all, memory: bounded, attempt: slowReaders, serve: held,
		tries: "a hundred clients that ask for 200 MB each and read nothing",
		holds: "the promises for all",
	},
	{
		name: "unread pipelines", on: all, memory: bounded, attempt: unreadPipelines, serve: held,
		tries: "sixty clients that send commands without end and read nothing",
		holds: "the promises for all",
	},
	{
		name: "stopped subscribers", on: all, memory: bounded, attempt: stoppedSubscribers, serve: held,
		tries: "forty subscribers that read nothing of 100 MB that is published",
		holds: "the promises for all",
	},
	{
		name: "a crowd", on: all, memory: bounded, attempt: idleCrowd, serve: held,
		tries: "thousands of clients that are idle, wait, or stopped in the middle of a command",
		holds: "the promises for all",
	},
	{
		name: "open transactions", on: all, memory: bounded, attempt: openTransactions, serve: held,
		tries: "forty clients that queue 40 MB after MULTI and send no EXEC",
		holds: "the promises for all",
	},
	{
		name: "large replies", on: embedded, memory: bounded, attempt: amplified, serve: held,
		tries: "requests of a few bytes whose replies have 400 MB, by six clients at once",
		holds: "the promises for all",
	},
	{
		name: "large replies of a back end", on: behind, memory: bounded, attempt: amplified, serve: held, long: true, // A server takes seconds for such replies on a busy machine.
		tries: "the same, where another server makes the replies",
		holds: "the promises for all",
	},
	{
		name: "states of clients", on: all, memory: 512, attempt: abusesClients,
		tries: "CLIENT KILL, UNBLOCK, RESET, MULTI, HELLO and QUIT on connections that wait, watch, subscribe or hold a transaction",
		holds: "the promises for all",
	},
	{
		name: "beyond the limits of the back end", on: behind, memory: 1024, attempt: tooLarge,
		back:  []string{"--proto-max-bulk-len", "1mb", "--client-output-buffer-limit", "normal 8mb 0 0"},
		tries: "arguments beyond proto-max-bulk-len, and replies beyond client-output-buffer-limit, on servers with low limits",
		holds: "only the client that sent it gets the error",
	},
	{
		name: "a reply of 1.1 GB", on: behind, memory: 2*1024 + 256, attempt: beyondAGiB, long: true, // It takes seconds.
		tries: "MGET of 110 MB ten times",
		holds: "only the client that asked gets an error",
	},
	{
		name: "TLS: broken handshakes", on: []topology{encrypted}, memory: bounded, attempt: brokenHandshakes, serve: held,
		tries: "hundreds of clients that send parts of a ClientHello, damaged ones, records of every kind, and stop",
		holds: "the promises for all",
	},
	{
		name: "memcached: announced values", on: []topology{memcached}, memory: 256, attempt: announcedValues,
		tries: "sixty clients that announce values of up to 512 MB and send one byte",
		holds: "memory is taken as bytes come",
	},
	{
		name: "memcached: long lines", on: []topology{memcached}, memory: 256, attempt: longLines,
		tries: "every command with thousands of blanks or characters where memcached counts them",
		holds: "none of them reaches a server that closes the connection on it",
	},
	{
		name: "memcached: HTTP", on: []topology{memcached}, memory: 256, attempt: posts,
		tries: "requests of HTTP whose body is a set",
		holds: "the body is not run",
	},
	{
		name: "memcached: damaged lines", on: []topology{memcached}, memory: 256, attempt: nearlyValid,
		tries: "random lines that are valid but for something, and random bits flipped in them",
		holds: "the promises for all",
	},
	{
		name: "memcached: slow readers", on: []topology{memcached}, memory: 1536, attempt: readsNothing,
		tries: "forty clients that ask for up to 375 MB each and read nothing",
		holds: "the promises for all",
	},
	{
		name: "kill -9", on: []topology{durable}, memory: 512, attempt: killedWhileWriting, alone: true, serve: []string{"--fsync=always"},
		tries: "kill -9 at a random time under pipelines of writes and a compaction, with --fsync always",
		holds: "every write that was acknowledged is there after the restart, in its order",
	},
	{
		name: "a damaged log", on: []topology{durable}, memory: 512, attempt: damagesLog, alone: true, serve: []string{"--fsync=always"},
		tries: "one file of the log deleted, emptied, cut, or with bytes changed, after a clean end",
		holds: "the process opens it with everything that was acknowledged, or refuses it with exit code 65",
	},
	{
		name: "a log that can't grow", on: []topology{durable}, memory: 512, attempt: failingWrites, alone: true, serve: []string{"--fsync=everysec"},
		tries: "a limit on the size of files (EFBIG) under writes, with --fsync everysec, and kill -9",
		holds: "the process goes on in another file or refuses writes; at most the last two seconds are lost",
	},
	{
		name: "a full memory", on: []topology{engine, durable}, memory: 2*64 + 64, attempt: fills, alone: true, serve: []string{"--maxmemory=64MiB"},
		tries: "values of all types until --maxmemory refuses them, with compactions of the log",
		holds: "the process takes twice the limit, and 64 MiB, at most",
	},
	{
		name: "a full memory, with eviction", on: []topology{engine, durable}, memory: 2*64 + 64, attempt: fills, alone: true, serve: []string{"--maxmemory=64MiB", "--maxmemory-policy=allkeys-lru"},
		tries: "the same where other keys go",
		holds: "the same",
	},
}
