package benchmarks

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // git's name of a file
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The generated files, from the root of the repository.
const (
	pageFile    = "docs/benchmarks.md"
	chineseFile = "docs/zh-CN/benchmarks.md"
	plotFolder  = "docs/images/benchmarks"
	rawFolder   = "bench/results"
)

// A text is in English and in Chinese.
type text struct{ en, zh string }

// A section is a suite on the page.
type section struct {
	suite       string
	title, tell text
	size        text // the word for Record.Size
	curves      axis // of a line plot; the others are plots of ratios
}

// An axis of a line plot is a figure of a record.
type axis string

const (
	noAxis    axis = ""
	byCallers axis = "callers"
	bySize    axis = "size"
)

var (
	keysWord   = text{"keys", "个 key"}
	shardsWord = text{"shards", "个分片"}
	tripWord   = text{"ms of round trip", "ms 往返"}
)

// sections are the suites in the order of the page.
var sections = []section{
	{suite: "ratelimit", title: text{"Rate limits", "限流"}, tell: text{"Decisions of a limit that allows all calls, and of one that refuses all.", "对全部放行和全部拒绝的限制做判定。"}},
	{suite: "locks", title: text{"Locks", "分布式锁"}, tell: text{"Pairs of lock and unlock of a free lock, each caller with a name of its own.", "对空闲的锁加锁再解锁；每个调用者用自己的名称。"}},
	{suite: "handover", title: text{"Hand-over of a lock", "锁的交接"}, tell: text{"One lock that the callers of many processes wait for; each holds it for 1 ms.", "许多进程的调用者等待同一个锁；每个持有 1 ms。"}},
	{suite: "queue", title: text{"Queues", "队列"}, tell: text{"Messages of 100 bytes, with a handler that does nothing. A bare list is no queue: a popped message is lost with its consumer.", "100 字节的消息，处理函数什么也不做。单纯的列表不是队列：取出的消息会随消费者一起丢失。"}},
	{suite: "stock", title: text{"Stock", "库存"}, tell: text{"Units of one item sold, beside a lock around a count.", "出售同一件商品；对比用锁保护的计数。"}},
	{suite: "bloom", title: text{"Bloom filters", "布隆过滤器"}, tell: text{"Look-ups and adds, one item a call and 100.", "查询和添加，每次 1 项和 100 项。"}},
	{suite: "bitmap", title: text{"Bitmaps", "位图"}, tell: text{"Bits of a sharded map, beside bit commands on one key.", "分片位图的位；对比单个 key 上的位命令。"}},
	{suite: "geo", title: text{"Positions", "附近搜索"}, tell: text{"Queries and moves among many members, beside one key that has all.", "在大量成员中查询和移动；对比包含全部成员的单个 key。"}},
	{suite: "hll", title: text{"Visitors", "访客统计"}, tell: text{"Visits counted; ours gathers them in the process and sends them once a second.", "统计访问；Redoubt 在进程内收集，每秒发送一次。"}},
	{suite: "ttlhash", title: text{"Expiring hashes", "字段会过期的 hash"}, tell: text{"Reads and writes of fields of 100 bytes that expire one by one.", "读写各自过期的 100 字节字段。"}},
	{suite: "scan", title: text{"Scans", "遍历"}, tell: text{"Keys listed, and measured in bytes.", "列出 key，并测量字节数。"}},
	{suite: "cache", title: text{"Caches", "缓存"}, tell: text{"Hits in the process and on the server, and a key that many callers miss at once.", "进程内和服务器上的命中，以及许多调用者同时未命中的 key。"}},
	{suite: "serve", title: text{"The server in front of Redis", "Redis 前面的服务器"}, tell: text{"redis-benchmark through `redoubt serve`, beside the server itself: the cost of one more process on the way.", "redis-benchmark 经过 `redoubt serve`，对比直连服务器：多经过一个进程的代价。"}},
	{suite: "proxy", title: text{"Pools of Redis", "Redis 的分片池"}, tell: text{"`redoubt serve --pools` beside nutcracker, with its buffers as they come and small; direct is a connection to one server.", "`redoubt serve --pools` 对比 nutcracker（默认缓冲区和小缓冲区）；direct 是直连一台服务器。"}},
	{suite: "memcached", title: text{"Pools of memcached", "memcached 的分片池"}, tell: text{"The same in front of memcached.", "同上，后端是 memcached。"}},
	{suite: "engine", title: text{"The engine", "引擎"}, tell: text{"redis-benchmark against `redoubt serve` on the embedded engine, and against redis-server.", "redis-benchmark 测试内嵌引擎上的 `redoubt serve`，对比 redis-server。"}},
	{suite: "calls", title: text{"Calls in the process", "进程内的调用"}, tell: text{"The library on an engine in the same process, beside the same library on Redis over loopback.", "Go 库用同一进程里的引擎，对比同一个库经回环地址用 Redis。"}},
	{suite: "memory", title: text{"Memory of the engine", "引擎的内存"}, tell: text{"Live bytes for each of many elements, beside used_memory of redis-server.", "大量元素中每个元素占用的字节数，对比 redis-server 的 used_memory。"}},
	{suite: "lua", title: text{"Lua", "Lua"}, tell: text{"Processor time of small scripts on our interpreter, beside others in pure Go.", "小脚本在我们的解释器上的 CPU 时间，对比其他纯 Go 解释器。"}},
	{suite: "pollers", title: text{"Poll loops", "轮询循环"}, tell: text{"A small server on our poll loop, beside the same on others.", "在我们的轮询循环上的小服务器，对比其他循环上的同样的服务器。"}},
	{suite: "growth callers", title: text{"Growth: callers", "增长：调用者"}, tell: text{"From 1 caller to 1,000, each with names of its own, in one process on one server.", "从 1 个调用者到 1,000 个，各用自己的名称，一个进程，一台服务器。"}, curves: byCallers},
	{suite: "growth keys", title: text{"Growth: keys", "增长：key"}, tell: text{"16 callers; the number of names, messages, entries, items of a filter or items on sale grows.", "16 个调用者；名称、消息、缓存条目、过滤器元素或商品的数量在增长。"}, size: keysWord, curves: bySize},
	{suite: "growth shards", title: text{"Growth: shards", "增长：分片"}, tell: text{"100 callers on a Redis Cluster, whose number of masters grows; all are on this machine and share its cores.", "100 个调用者；Redis Cluster 的主节点数在增长，全部在本机，共用它的核。"}, size: shardsWord, curves: bySize},
	{suite: "growth round trip", title: text{"Growth: round trip", "增长：往返时间"}, tell: text{"One caller's latency and the throughput of 100 callers, through a proxy that delays every byte.", "1 个调用者的延迟和 100 个调用者的吞吐量；中间的代理延迟每个字节。"}, size: tripWord},
	{suite: "growth memory", title: text{"Memory of one object", "一个对象的内存"}, tell: text{"MEMORY USAGE of the keys of 1,000 objects, for each object.", "1,000 个对象的所有 key 的 MEMORY USAGE，折合到每个对象。"}},
}

// Newest returns the results of the last committed run.
func Newest(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, rawFolder, "compare-*.tsv"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no compare-*.tsv in %s", rawFolder)
	}
	if err != nil {
		return "", err
	}
	return slices.Max(files), nil
}

// Generate makes the pages and the plots of a file of results, by their path from the root.
func Generate(file string) (files map[string]string, err error) {
	r, err := Read(file)
	if err != nil {
		return nil, err
	}
	files = map[string]string{}
	bySuite := map[string][]line{}
	for _, l := range linesOf(r.Records) {
		bySuite[l.ours.Suite] = append(bySuite[l.ours.Suite], l)
	}
	var used []section
	for _, s := range sections {
		lines := bySuite[s.suite]
		if len(lines) == 0 {
			continue
		}
		used = append(used, s)
		delete(bySuite, s.suite)
		files[plotFolder+"/"+s.file()] = s.plot(lines)
	}
	for suite := range bySuite {
		return nil, fmt.Errorf("%s: suite %q: say in sections what it is", file, suite)
	}
	page := func(say func(text) string, up string) string { return r.page(used, filepath.Base(file), say, up) }
	english := page(func(t text) string { return t.en }, "../")
	hash := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(english), english)) //nolint:gosec // as above
	files[pageFile] = english
	files[chineseFile] = fmt.Sprintf("<!-- source: %s %x -->\n\n", pageFile, hash[:6]) + page(func(t text) string { return t.zh }, "../../")
	return files, nil
}

// Write makes the pages and the plots anew, and removes plots that have no suite any more.
func Write(root, file string) error {
	files, err := Generate(file)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, plotFolder)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, plotFolder), 0o755); err != nil { //nolint:gosec // documentation is for everybody
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

func (s section) file() string { return strings.ReplaceAll(s.suite, " ", "-") + ".svg" }

func (s section) plot(lines []line) string {
	if s.curves != noAxis {
		return curvesPlot(s, lines)
	}
	return ratiosPlot(s, lines)
}

// page writes the page in one language. up leads to the root.
func (r Results) page(used []section, raw string, say func(text) string, up string) string {
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	images := strings.TrimPrefix(up, "../") + "images/benchmarks/"
	write("# %s\n\n", say(text{"Benchmarks", "性能测试"}))
	write("%s\n\n", say(text{
		"Redoubt beside the usual libraries and servers. `make compare` measures everything anew and writes this page;\nit needs redis-server, memcached and nutcracker. [The guide to the suites](" + up + "bench/README.md) says how each peer is set up.",
		"Redoubt 与常用的库和服务器的对比。`make compare` 重新测量一切并写出本页；需要 redis-server、memcached 和\nnutcracker。[各套件的说明](" + up + "bench/README.md)写明每个对比对象的设置方式。",
	}))
	if r.Note != "" {
		write("**%s: %s.**\n\n", say(text{"A first impression, no measurement to rely on", "这只是初步印象，不可作为依据的测量"}), r.Note)
	}
	write("```sh norun: hours of measurements\n%s\n```\n\n", `make compare                                        # everything: hours
make compare ARGS="-duration 50ms -rounds 3"        # minutes, with small data sets
make compare ARGS="-only locks,queue"               # these anew; the other results of the day stay
make compare ARGS="-full"                           # with 10,000,000 keys too
make compare ARGS="-from results/FILE.tsv"          # this page from a file of results, without measuring`)
	write("- %s: [%s](%sbench/results/%[2]s)\n", say(text{"Raw results", "原始结果"}), raw, up)
	write("- %s: %s\n", say(text{"Date and machine", "日期和机器"}), r.Machine)
	write("- %s: %s\n", say(text{"Peers", "对比对象"}), r.Versions)
	write("\n%s\n", say(text{
		"All contenders of a line with rounds take turns in each round, and another one is first each time. A figure is the median of the rounds; in\nparentheses is the spread between the quartiles (of three rounds: all of them). A ratio compares medians: above 1 Redoubt is\nbetter, for rates, times and bytes alike. Where Redoubt loses, the ratio is bold with the word \"behind\". In the plots a dot is a\nratio, the bar is the spread of the ratios within a round, and the line is at 1.",
		"一行里的所有对比对象在每一轮中轮流测量，每轮由不同的对象先开始。数字是各轮的中位数；括号里是四分位数之间的范围（三轮时为全部范围）。\n比值是中位数之比：大于 1 表示 Redoubt 更好，速率、时间和字节都是如此。Redoubt 落后时，比值为粗体并标有“behind”。\n图中的点是比值，横条是各轮内比值的范围，竖线在 1 处。",
	}))
	bySuite := map[string][]line{}
	for _, l := range linesOf(r.Records) {
		bySuite[l.ours.Suite] = append(bySuite[l.ours.Suite], l)
	}
	if r.Note == "" {
		write("\n| %s | %s | %s |\n|---|---|---|\n", say(text{"suite", "套件"}), say(text{"ratios", "比值数"}), say(text{"behind", "落后"}))
	}
	for _, s := range used {
		all, behind := 0, 0
		for _, l := range bySuite[s.suite] {
			for _, p := range l.peers {
				all++
				if isBehind(ratio(l.ours, p)) {
					behind++
				}
			}
		}
		if all > 0 && r.Note == "" {
			write("| [%s](#%s) | %d | %d |\n", say(s.title), anchor(say(s.title)), all, behind)
		}
	}
	for _, s := range used {
		write("\n## %s\n\n%s\n\n![%s](%s%s)\n", say(s.title), say(s.tell), say(s.title), images, s.file())
		for _, t := range tablesOf(bySuite[s.suite]) {
			b.WriteString("\n" + s.table(t, say))
		}
	}
	return b.String()
}

// anchor is GitHub's name of a heading.
func anchor(title string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if strings.ContainsRune(":：,，", r) {
			return -1
		}
		return r
	}, strings.ToLower(title)), " ", "-")
}

// tablesOf splits lines into tables in which every cell has something: same contenders, same unit. The lines of an
// operation follow each other.
func tablesOf(lines []line) (tables [][]line) {
	at := map[string]int{}
	for _, l := range lines {
		parts := []string{l.ours.Unit, l.ours.Contender}
		for _, r := range slices.Concat(l.own, l.peers) {
			parts = append(parts, r.Contender)
		}
		key := strings.Join(parts, "\t")
		i, known := at[key]
		if !known {
			i = len(tables)
			at[key] = i
			tables = append(tables, nil)
		}
		tables[i] = append(tables[i], l)
	}
	for _, t := range tables {
		first := func(title string) int {
			return slices.IndexFunc(lines, func(l line) bool { return l.ours.Title == title })
		}
		slices.SortStableFunc(t, func(a, b line) int { return cmp.Compare(first(a.ours.Title), first(b.ours.Title)) })
	}
	return tables
}

func (s section) table(lines []line, say func(text) string) string {
	first := lines[0]
	withCallers := slices.ContainsFunc(lines, func(l line) bool { return l.ours.Callers > 0 })
	head := []string{say(text{"operation", "操作"})}
	if s.size != (text{}) {
		head = append(head, say(s.size))
	}
	if withCallers {
		head = append(head, say(text{"callers", "调用者"}))
	}
	head = append(head, first.ours.Contender+", "+first.ours.Unit)
	for _, r := range first.own {
		head = append(head, r.Contender+", "+r.Unit)
	}
	for _, r := range first.peers {
		head = append(head, say(text{"to ", "对 "})+r.Contender)
	}
	rows := [][]string{head, slices.Repeat([]string{"---"}, len(head))}
	for _, l := range lines {
		row := []string{l.ours.Title}
		if s.size != (text{}) {
			row = append(row, thousands(float64(l.ours.Size)))
		}
		if withCallers {
			row = append(row, thousands(float64(l.ours.Callers)))
		}
		low, high := spread(l.ours.Rounds)
		cell := figure(l.ours.Median())
		if len(l.ours.Rounds) > 1 {
			cell += fmt.Sprintf(" (%s–%s)", figure(low), figure(high))
		}
		row = append(row, cell)
		for _, r := range l.own {
			row = append(row, figure(r.Median()))
		}
		for _, r := range l.peers {
			row = append(row, ratioCell(l.ours, r, say))
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}

// ratioCell writes the ratio to a peer, and says so where Redoubt is behind.
func ratioCell(ours, peer Record, say func(text) string) string {
	r := ratio(ours, peer)
	switch {
	case ours.moreIsBetter() && peer.Median() == 0:
		return say(text{"it did none", "它一次也没有完成"})
	case math.IsInf(r, 0) || math.IsNaN(r): // a time too short to be measured
		return say(text{"no ratio", "无比值"})
	case isBehind(r):
		return fmt.Sprintf("**%s %s**", significant(r), say(text{"behind", "落后"}))
	}
	return significant(r)
}

// significant writes a ratio with the digits that tell something.
func significant(r float64) string {
	switch {
	case r >= 100:
		return thousands(r)
	case r >= 10:
		return fmt.Sprintf("%.1f", r)
	case r < 0.01:
		return fmt.Sprintf("%.4f", r)
	}
	return fmt.Sprintf("%.2f", r)
}

// figure writes a measured figure.
func figure(f float64) string {
	if math.Abs(f) < 100 {
		return fmt.Sprintf("%.3g", f)
	}
	return thousands(f)
}

// thousands writes a whole number with commas.
func thousands(f float64) string {
	text := strconv.FormatFloat(math.Round(f), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
