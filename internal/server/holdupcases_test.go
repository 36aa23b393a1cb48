package server_test

import (
	"slices"
	"strconv"
	"strings"

	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// worstOf has the cases of TestNoCommandHoldsUpTheServer, by command.
var worstOf = map[string][]worst{
	"CL.THROTTLE":   repeated("large numbers", "k 1000000000 1000000000 1000000000 1000000", "", 0),
	"LIMIT.TAKE":    rates("8 limits", longName+" 1"),
	"LIMIT.RESERVE": rates("8 limits", "k 1"),
	"LIMIT.WAIT":    rates("8 limits", "k 1"),
	"LIMIT.PEEK":    rates("8 limits", "k"),
	"LIMIT.REFUND":  rates("8 limits", "k 1 "+longID),
	"LIMIT.DEFINE":  rates("8 limits", "k"),
	"LIMIT.WINDOW": append(
		repeated("all calls at once", "k "+window, window+" 1000000000", 8),
		after("the log grows", func(h *holdup) { h.run("LIMIT.WINDOW k 60000 " + window + " 1000000000") }, "k 30000 "+window+" 1000000000"),
		after("the log is full", func(h *holdup) { h.run("LIMIT.WINDOW k " + window + " " + window + " 1000000000") }, "k 1 "+strings.Repeat(window+" 1000000000 ", 8)),
	),
	"LIMIT.QUOTA": repeated("a year", "k 1 1125899906842624 YEAR Europe/Paris", "", 0),
	"LIMIT.CANCEL": {{"a reservation", nil, func(h *holdup) []string {
		v, _ := h.w.value("LIMIT.RESERVE", "k", "1", "100", "1000", "10").([]any)
		return []string{"k", v[len(v)-1].(string)}
	}}},
	"LIMIT.RESET": {after("a full log", func(h *holdup) { h.run("LIMIT.WINDOW k " + window + " " + window + " 1000000000") }, "k")},
	"LIMIT.USE":   {after("8 limits", func(h *holdup) { h.run("LIMIT.DEFINE k " + strings.Repeat("1000 1000 1000 ", 8)) }, "k 1")},

	"LOCK.ACQUIRE": {after("with 2,000 readers", holders("LOCK.ACQUIRE n 60000 SHARED ID"), "n 60000 SHARED")},
	"LOCK.EXTEND":  {after("with 2,000 readers", holders("LOCK.ACQUIRE n 60000 SHARED ID"), "n 7 70000")},
	"LOCK.RELEASE": {after("with 2,000 readers", holders("LOCK.ACQUIRE n 60000 SHARED ID"), "n 7")},
	"LOCK.INFO":    {after("with 2,000 readers", holders("LOCK.ACQUIRE n 60000 SHARED ID"), "n")},
	"LOCK.FORCE":   {after("with 2,000 readers", holders("LOCK.ACQUIRE n 60000 SHARED ID"), "n 1")},
	"LOCK.LS":      {after("2,000 locks", names("LOCK.ACQUIRE n%d 60000"), "")},
	"SEM.ACQUIRE":  {after("with 2,000 holders", holders("SEM.ACQUIRE n 1000000 60000 ID"), "n 1000000 60000")},
	"SEM.EXTEND":   {after("with 2,000 holders", holders("SEM.ACQUIRE n 1000000 60000 ID"), "n 7 70000")},
	"SEM.RELEASE":  {after("with 2,000 holders", holders("SEM.ACQUIRE n 1000000 60000 ID"), "n 7")},
	"SEM.INFO":     {after("with 2,000 holders", holders("SEM.ACQUIRE n 1000000 60000 ID"), "n")},
	"SEM.FORCE":    {after("with 2,000 holders", holders("SEM.ACQUIRE n 1000000 60000 ID"), "n 1")},
	"SEM.LS":       {after("2,000 semaphores", names("SEM.ACQUIRE n%d 1 60000"), "")},
	// FENCE.DO runs a command of the client's choice.
	"FENCE.DO": repeated("many arguments", "n 1 RPUSH {n}k", "v", 3998),

	"QUEUE.PUT": {{"a large message", nil, func(h *holdup) []string {
		return []string{"q", h.bulk[:queue.MaxPayload], "ID", longID, "GROUP", longID, "UNIQUE", longID, "1000"}
	}}},
	"QUEUE.TAKE": {
		after("many messages", queued(1000, 100), "q 1000 1000"),
		after("many large messages", queued(100, 100_000), "q 1000 1000"),
		after("a large message", func(h *holdup) { h.run("QUEUE.PUT q", h.bulk) }, "q 1000 1000"),
		after("many that are due", func(h *holdup) {
			h.many(200, func(int) []string { return []string{"QUEUE.PUT", "q", h.bulk[:100_000], "DELAY", "1"} })
		}, "q 1000 1000"),
		after("many that are abandoned", func(h *holdup) {
			queued(200, 100_000)(h)
			for range 10 {
				h.run("QUEUE.TAKE q 1000 1")
			}
		}, "q 1000 1000"),
	},
	"QUEUE.ACK": {{"many messages", nil, func(h *holdup) []string {
		queued(1000, 100)(h)
		return append([]string{"q"}, takenBy(h, 1000)...)
	}}, {"as large as they may be", func(h *holdup) { filled(h, "running", 15, 1<<20, "") }, func(*holdup) []string {
		return append([]string{"q"}, receiptsOf(15)...)
	}}, {"large ones of groups", func(h *holdup) { filled(h, "running", 6, 300_000, "g") }, func(*holdup) []string {
		return append([]string{"q"}, receiptsOf(6)...)
	}}, {"too large", func(h *holdup) {
		filled(h, "running", 100, 1<<20, "")
		h.fault = "more than 16 MiB together: settle fewer"
	}, func(*holdup) []string { return append([]string{"q"}, receiptsOf(100)...) }}},
	"QUEUE.NACK": {{"a long reason", nil, func(h *holdup) []string {
		queued(10, 100)(h)
		return []string{"q", takenBy(h, 1)[0], "REASON", strings.Repeat("r", 1024)}
	}}},
	"QUEUE.EXTEND": {{"one of many", nil, func(h *holdup) []string {
		queued(1000, 100)(h)
		return []string{"q", takenBy(h, 1000)[500], "100000"}
	}}},
	"QUEUE.PROGRESS": {{"one of many", nil, func(h *holdup) []string {
		queued(1000, 100)(h)
		return []string{"q", takenBy(h, 1000)[500], strings.Repeat("n", 4096)}
	}}},
	"QUEUE.CANCEL": {
		after("many large ones", func(h *holdup) { filled(h, "due", 100, 1<<20, "") }, "q", number("", 100)...),
		after("many large ones of groups", func(h *holdup) { filled(h, "due", 40, 1<<20, "g") }, "q", number("", 40)...),
		after("some of many that are running", func(h *holdup) { filled(h, "running", 100_000, 1, "") }, "q", number("", 10)...),
		after("some of many that wait", func(h *holdup) { filled(h, "waiting", 100_000, 1, "g") }, "q", number("", 10)...),
		after("many that are ready", queued(1000, 100), "q", allIDs...),
		after("many that are running", func(h *holdup) {
			queued(1000, 100)(h)
			takenBy(h, 1000)
		}, "q", allIDs...),
		after("many of one group", func(h *holdup) {
			h.many(1000, func(i int) []string { return []string{"QUEUE.PUT", "q", "x", "ID", allIDs[i], "GROUP", "g"} })
		}, "q", allIDs...),
	},
	"QUEUE.DEAD": {after("many", dead, "q 1000")},
	"QUEUE.MESSAGES": {
		after("many that are ready", queued(1000, 100), "q READY 1000"),
		after("many large ones", queued(100, 100_000), "q READY 1000"),
		after("beyond the end", queued(1000, 100), "q READY 1000 FROM 1000000000000"),
		after("many that run", func(h *holdup) {
			queued(1000, 100)(h)
			takenBy(h, 1000)
		}, "q RUNNING 1000"),
	},
	"QUEUE.FIND": {after("one of many that run", func(h *holdup) {
		queued(1000, 100)(h)
		takenBy(h, 1000)
	}, "q 7"), after("one of very many that run", func(h *holdup) { filled(h, "running", 100_000, 1, "") }, "q 7"), after("a large one", func(h *holdup) { h.run("QUEUE.PUT q", h.bulk, "ID", "7") }, "q 7")},
	"QUEUE.REQUEUE": {
		after("many", dead, "q", allIDs...),
		after("large ones", func(h *holdup) { filled(h, "dead", 40, 1<<20, "g") }, "q", number("", 40)...),
	},
	"QUEUE.DELETE": {
		after("many", dead, "q", allIDs...),
		after("large ones", func(h *holdup) { filled(h, "dead", 100, 1<<20, "g") }, "q", number("", 100)...),
	},
	"QUEUE.STATS":      {after("many", queued(1000, 100), "q")},
	"QUEUE.LS":         {after("many queues", names("QUEUE.PUT q%d x"), "")},
	"QUEUE.PAUSE":      {after("many", queued(1000, 100), "q")},
	"QUEUE.RESUME":     {after("many", queued(1000, 100), "q")},
	"QUEUE.LIMIT":      {after("many", queued(1000, 100), "q CONCURRENCY 1000000 RATE 1000 1000 BURST 1000000")},
	"QUEUE.SCHEDULE":   {after("many large ones", scheduled(200, 60_000), "q 7 x CRON @daily TZ Asia/Shanghai")},
	"QUEUE.SCHEDULES":  {after("many large ones", scheduled(200, 60_000), "q 1000")},
	"QUEUE.UNSCHEDULE": {after("many large ones", scheduled(200, 60_000), "q", allIDs...)},

	"STOCK.SET":     {after("with 2,000 reservations", reserved, "n 2000000")},
	"STOCK.ADD":     {after("with 2,000 reservations", reserved, "n 1")},
	"STOCK.RESERVE": {after("with 2,000 reservations", reserved, "n 1 60000 ID", longID)},
	"STOCK.COMMIT":  {after("with 2,000 reservations", reserved, "n 7")},
	"STOCK.CANCEL":  {after("with 2,000 reservations", reserved, "n 7")},
	"STOCK.INFO":    {after("with 2,000 reservations", reserved, "n")},
	"STOCK.LS":      {after("2,000 items", names("STOCK.SET n%d 1"), "")},

	"BF.RESERVE": repeated("a large filter", "f 0.01 14000000 NONSCALING", "", 0),
	"BF.ADD": {
		after("a link for each item", ones, "f new"),
		after("many links", links, "f new"),
	},
	"BF.MADD": {
		after("a link for each item", func(h *holdup) { h.run("BF.RESERVE f 0.0001 1 EXPANSION 1") }, "f", number("", 10_000)...),
		after("all links that there can be", ones, "f", number("other", 10_000)...),
		after("few items, many links", ones, "f", number("other", 10)...),
		after("many links", links, "f", number("", 1000)...),
		after("a large filter", large, "f", number("", 10_000)...),
	},
	"BF.INSERT": {
		after("a new filter", nil, "f ITEMS", number("", 10_000)...),
		after("large links are added", nil, "f CAPACITY 270 EXPANSION 32768 ITEMS", number("", 10_000)...),
		after("a new large filter", nil, "f CAPACITY 14000000 NONSCALING ITEMS", number("", 10_000)...),
	},
	"BF.EXISTS":  {after("a link for each item", ones, "f new"), after("many links", links, "f new")},
	"BF.MEXISTS": {after("a link for each item", ones, "f", number("n", 10_000)...), after("many links", links, "f", number("", 1000)...), after("a large filter", large, "f", number("", 10_000)...)},
	"BF.INFO":    {after("many links", links, "f")},
	"BF.CARD":    {after("many links", links, "f")},
	"BF.SCANDUMP": {
		after("many links", links, "f 0"), after("the last of many links", links, "f 1920000"), after("a large filter", large, "f 1"),
	},
	"BF.LOADCHUNK": {{"a large filter", large, func(h *holdup) []string {
		v, _ := h.w.value("BF.INFO", "f", "SIZE").([]any)
		n := int(v[0].(int64)) - 32 - 64
		return []string{"f", strconv.Itoa(n + 1), strings.Repeat("x", n)}
	}}, {"a header of a large filter", large, func(h *holdup) []string {
		v, _ := h.w.value("BF.SCANDUMP", "f", "0").([]any)
		return []string{"other", "1", v[1].(string)}
	}}, {"a header of many links", links, func(h *holdup) []string {
		v, _ := h.w.value("BF.SCANDUMP", "f", "0").([]any)
		return []string{"other", "1", v[1].(string)}
	}}, after("the last of many links", links, "f "+strconv.Itoa(192*bloomwire.MaxChainLinks+1), strings.Repeat("x", 192))},

	"TTLHASH.SET": {
		after("one of many", fields(1000), "h "+longName, strings.Repeat("v", ttlhash.MaxValue), "100000"),
		after("a large one, others are over", largeOver, "h last", strings.Repeat("v", ttlhash.MaxValue), "100000"),
	},
	"TTLHASH.GET":  {after("a large one", func(h *holdup) { h.run("TTLHASH.SET h 7", h.bulk[:ttlhash.MaxValue], "100000") }, "h 7")},
	"TTLHASH.MGET": {after("many large ones", largeFields, "h", together...)},
	"TTLHASH.TTL":  {after("many large ones", largeFields, "h", together...)},
	"TTLHASH.EXPIRE": {
		after("a large one", func(h *holdup) { h.run("TTLHASH.SET h 7", h.bulk[:ttlhash.MaxValue], "100000") }, "h 7 200000 GT"),
		after("a large one, others are over", largeOver, "h last 200000 GT"),
	},
	"TTLHASH.DEL": {
		after("many large ones", func(h *holdup) { fieldsOf(h, len(together), (1<<20)/len(together), "100000") }, "h", together...),
		after("more than 1 MiB", func(h *holdup) {
			fieldsOf(h, 64, ttlhash.MaxValue, "100000")
			h.fault = "more than 1 MiB together"
		}, "h", together...),
		after("a large one, others are over", largeOver, "h last"),
	},
	"TTLHASH.LEN":   {after("many that are over", over, "h"), after("large ones that are over", largeOver, "h")},
	"TTLHASH.SWEEP": {after("many that are over", over, "h"), after("large ones that are over", largeOver, "h")},
	"TTLHASH.SCAN": {after("many", fields(10_000), "h 0 COUNT 5000"), after("many large ones", func(h *holdup) {
		h.many(2000, func(i int) []string { return []string{"TTLHASH.SET", "h", strconv.Itoa(i), h.bulk[:10_000], "100000"} })
	}, "h 0 COUNT 5000"), after("the largest", func(h *holdup) { fieldsOf(h, 64, ttlhash.MaxValue, "100000") }, "h 0 COUNT 5000")},

	"GEOIDX.ADD": {
		after("in one place", nil, "g", places(0.00001)...), after("over the world", nil, "g", places(1)...),
		after("all move", placed(1), "g", places(0.00001)...), after("all move apart", placed(0.00001), "g", places(1)...),
	},
	"GEOIDX.REM":  {after("in one place", placed(0.00001), "g", number("m", 3000)...), after("over the world", placed(1), "g", number("m", 3000)...)},
	"GEOIDX.POS":  {after("in one place", placed(0.00001), "g", number("m", 3000)...)},
	"GEOIDX.DIST": {after("over the world", placed(1), "g m0 m2999")},
	"GEOIDX.NEAR": {
		after("in one place", placed(0.00001), "g FROMLONLAT 0 0 BYRADIUS 20000 KM WITHCOORD WITHDIST"),
		after("over the world", placed(1), "g FROMMEMBER m7 BYBOX 40000 20000 KM WITHCOORD WITHDIST"),
	},
}

func reserved(h *holdup) {
	h.run("STOCK.SET n 1000000")
	h.many(2000, func(i int) []string {
		return slices.Concat(strings.Fields("STOCK.RESERVE n 1 60000 ID"), []string{strconv.Itoa(i)})
	})
}

// fieldsOf sets n fields of size bytes each.
func fieldsOf(h *holdup, n, size int, ttl string) {
	h.many(n, func(i int) []string { return []string{"TTLHASH.SET", "h", strconv.Itoa(i), h.bulk[:size], ttl} })
}

// largeFields are as many as one command reads, of 16 KiB each.
func largeFields(h *holdup) { fieldsOf(h, len(together), 16000, "100000") }

// over are 600 fields of 16 KiB whose time is over.
func over(h *holdup) {
	fieldsOf(h, 600, 16<<10, "500")
	h.run("TTLHASH.SET h last x 100000")
	h.redis.want("+OK\r\n", "DEBUG SLEEP 0.7") // by its clock
}

// largeOver are 48 fields of 1 MiB whose time is over, in few chunks of the index, and one more.
func largeOver(h *holdup) {
	h.run("TTLHASH.SET h last", h.bulk[:ttlhash.MaxValue], "100000")
	fieldsOf(h, 48, 1, "400")
	_ = h.redis.value("EVAL", `for i = 0, 47 do
		local value = redis.call('HGET', KEYS[1], i)
		if value then redis.call('HSET', KEYS[1], i, string.sub(value, 1, 8) .. string.rep('x', ARGV[1])) end
	end`, "1", "rd:{h}:ttlhash", strconv.Itoa(ttlhash.MaxValue))
	h.redis.want("+OK\r\n", "DEBUG SLEEP 0.7") // by its clock
}
