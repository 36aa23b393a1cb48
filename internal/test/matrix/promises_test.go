package matrix

// The promises, in the order of the table. A way without a test of one doesn't offer it.
const (
	exclusion      = "lock: one holder at a time"
	wakeUp         = "lock: a release wakes whoever waits"
	fairness       = "lock: fair order"
	fencing        = "lock: tokens rise, and old ones are refused"
	semaphore      = "semaphore: as many holders as permits"
	readersWriters = "readers and writers"
	latch          = "latch: opens for all who wait"
	multi          = "several locks at once"
	tokenBucket    = "limit: token bucket"
	waitForTokens  = "limit: wait for tokens"
	window         = "limit: sliding window"
	quota          = "limit: quota of a calendar"
	concurrency    = "limit: calls at a time"
	leasedTokens   = "limit: leased tokens"
	queueBlock     = "queue: a put wakes a consumer"
	queueDelay     = "queue: never early"
	queueCrash     = "queue: a dead consumer's message comes back"
	stockSold      = "stock: never oversold"
	stockRunsOut   = "stock: a reservation runs out"
	cacheLocal     = "cache: local levels hear of an invalidation"
	cacheTags      = "cache: tags"
	cacheCold      = "cache: a cold key is loaded once"
	bloomFilter    = "Bloom filter"
	bitmaps        = "bitmaps, calendars and records"
	visitors       = "visitors"
	geoIndex       = "geo index"
	ttlHash        = "hash with fields that expire"
	ttlHashEvents  = "events of fields that expired"
	scanKeys       = "scan"
	serveStarts    = "`serve --backend` starts in front of it"
)

var promises = []string{
	exclusion, wakeUp, fairness, fencing, semaphore, readersWriters, latch, multi,
	tokenBucket, waitForTokens, window, quota, concurrency, leasedTokens,
	queueBlock, queueDelay, queueCrash, stockSold, stockRunsOut,
	cacheLocal, cacheTags, cacheCold, bloomFilter, bitmaps, visitors, geoIndex,
	ttlHash, ttlHashEvents, scanKeys, serveStarts,
}
