package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/redoubt-go/redoubt"
)

// A topView is one of the lists that top shows.
type topView struct {
	title string
	head  []string
	rows  func(ctx context.Context, client *redoubt.Client) (rows [][]string, err error)
}

func newTop() *cobra.Command {
	var f serverFlags
	var interval time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, locks, limits and stock live",
		Long: `Show the server's load, and its queues, locks, limits or items, until you press q. The
arrows left and right, or 1 to 4, choose the list; up and down scroll it.

For the list on the screen it scans all keys of the server at each refresh, in small
steps that don't block other clients. It then pauses for at least four times as long as the
scan took. With --json it prints all lists once, and ends.

Exit codes: 0 ended by q or ^C; 64 wrong usage, or no terminal; 69 no server at the start;
128+n ended by signal n.`,
		Example: "  redoubt top\n  redoubt top --backend redis://10.0.0.5:6379 --interval 5s\n  redoubt top --json | jq .queues",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond {
				return usagef("interval is %v; want at least 100ms", interval)
			}
			out, ok := cmd.OutOrStdout().(*os.File)
			if !asJSON && (!ok || !isTerminal(out) || !isTerminal(os.Stdin)) {
				return usagef("top needs a terminal; --json prints what it shows once")
			}
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				if asJSON {
					return printTop(ctx, client, cmd.OutOrStdout())
				}
				t := &top{client: client, address: address(f.backend), interval: interval, look: styleOf(cmd, out)}
				return t.run(os.Stdin, out)
			})
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&interval, "interval", 2*time.Second, "time between two refreshes")
	onThisLine(flags, "interval")
	jsonFlag(flags, &asJSON, "print everything once as a JSON object")
	f.flags(flags, "data")
	return cmd
}

// A loadState is the JSON form of the server's load. A field that the server doesn't tell is 0.
type loadState struct {
	Version   string `json:"version"`
	Uptime    int64  `json:"uptime_s"`
	Clients   int64  `json:"clients"`
	Blocked   int64  `json:"blocked_clients"`
	Memory    int64  `json:"memory_bytes"`
	MaxMemory int64  `json:"max_memory_bytes"`
	Commands  int64  `json:"commands"` // since the server's start
	Keys      int64  `json:"keys"`
}

func readLoad(ctx context.Context, client *redoubt.Client) (loadState, error) {
	text, err := client.Do(ctx, redoubt.Cmd{Name: "INFO", Flags: redoubt.ReadOnly}).Text()
	fields := infoFields(text)
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 if the server doesn't tell
		return n
	}
	l := loadState{
		Version: fields["redis_version"], Uptime: number("uptime_in_seconds"), Clients: number("connected_clients"), Blocked: number("blocked_clients"),
		Memory: number("used_memory"), MaxMemory: number("maxmemory"), Commands: number("total_commands_processed"),
	}
	for name, value := range fields { // db0:keys=1,expires=0
		if strings.HasPrefix(name, "db") && strings.HasPrefix(value, "keys=") {
			count, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			n, _ := strconv.ParseInt(count, 10, 64)
			l.Keys += n
		}
	}
	return l, err
}

func printTop(ctx context.Context, client *redoubt.Client, out io.Writer) error {
	load, err := readLoad(ctx, client)
	if err != nil {
		return serverFault("INFO", err)
	}
	queues, err := listQueues(ctx, client, "")
	if err != nil {
		return serverFault("queues", err)
	}
	locks, err := listLocks(ctx, client, "")
	if err != nil {
		return serverFault("locks", err)
	}
	limits, err := listLimits(ctx, client, "")
	if err != nil {
		return serverFault("limits", err)
	}
	items, err := listItems(ctx, client, "")
	if err != nil {
		return serverFault("items", err)
	}
	return printJSON(out, map[string]any{"server": load, "queues": queues, "locks": locks, "limits": limits, "items": items})
}

var topViews = []topView{
	{"queues", []string{"NAME", "READY", "DUE", "RUNNING", "WAITING", "DEAD", "OLDEST", "STATE"}, func(ctx context.Context, client *redoubt.Client) (rows [][]string, err error) {
		states, err := listQueues(ctx, client, "")
		for _, s := range states {
			oldest, state := "-", "open"
			if s.Oldest > 0 {
				oldest = rounded(s.Oldest)
			}
			if s.Paused {
				state = "paused"
			}
			rows = append(rows, []string{printable(s.Name), strconv.Itoa(s.Ready), strconv.Itoa(s.Due), strconv.Itoa(s.Running), strconv.Itoa(s.Waiting + s.Blocked), strconv.Itoa(s.Dead), oldest, state})
		}
		return rows, err
	}},
	{"locks", []string{"NAME", "MODE", "HOLDERS", "WAITERS", "SINCE", "TTL", "HELD BY"}, func(ctx context.Context, client *redoubt.Client) (rows [][]string, err error) {
		states, err := listLocks(ctx, client, "")
		for _, s := range states {
			by, since, ttl := "-", "-", "-"
			if len(s.Holders) > 0 {
				by, since, ttl = s.Holders[0].by(), s.Holders[0].since(), s.Holders[0].ttl()
			}
			rows = append(rows, []string{printable(s.Name), s.Mode, strconv.FormatInt(s.Count, 10), strconv.FormatInt(s.Waiters, 10), since, ttl, by})
		}
		return rows, err
	}},
	{"limits", []string{"NAME", "KIND", "STORED LIMIT", "FULL AGAIN IN"}, func(ctx context.Context, client *redoubt.Client) (rows [][]string, err error) {
		states, err := listLimits(ctx, client, "")
		for _, s := range states {
			rows = append(rows, s.row())
		}
		return rows, err
	}},
	{"stock", []string{"NAME", "TOTAL", "AVAILABLE", "RESERVED", "SOLD"}, func(ctx context.Context, client *redoubt.Client) (rows [][]string, err error) {
		states, err := listItems(ctx, client, "")
		for _, s := range states {
			row := []string{printable(s.Name)}
			for _, n := range []int64{s.Total, s.Available, s.Reserved, s.Sold} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			rows = append(rows, row)
		}
		return rows, err
	}},
}

// A top is a running live view. Owned by run's goroutine.
type top struct {
	client   *redoubt.Client
	address  string
	interval time.Duration
	look     style

	view, scroll int
	load         loadState
	perSecond    int64
	rows         [][]string
	shown        int       // the view that rows are of; -1: none
	at           time.Time // of load and rows
	err          error     // of the last refresh
}

// A refresh is what one look at the server found.
type refresh struct {
	view int
	load loadState
	rows [][]string
	at   time.Time
	took time.Duration
	err  error

	panicked string // what a panic said, with its stack; empty: none
}

func (t *top) run(in, out *os.File) (err error) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(caught)
	ctx, code, stop := untilSignal(caught)
	defer stop()
	fd := int(in.Fd()) //nolint:gosec // a file descriptor
	before, err := term.MakeRaw(fd)
	if err != nil {
		return failf(exitFault, "the terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, before) }()
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l") // the other screen, no cursor
	defer func() { _, _ = io.WriteString(out, "\x1b[?25h\x1b[?1049l") }()

	typed := make(chan []byte)
	go func() { // ends with the process: a read of a terminal can't be interrupted
		for {
			b := make([]byte, 64)
			n, err := in.Read(b)
			if err != nil {
				close(typed)
				return
			}
			typed <- b[:n]
		}
	}()
	found := make(chan refresh, 1)
	ask := func() {
		go func(view int) { found <- t.refresh(ctx, view) }(t.view)
	}
	t.shown = -1
	asking := true
	ask()
	var next <-chan time.Time // when to ask again
	size := time.NewTicker(200 * time.Millisecond)
	defer size.Stop()
	var width, height int
	for drawn := ""; ; {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil { //nolint:gosec // a file descriptor
			if w != width || h != height {
				width, height, drawn = w, h, ""
			}
		}
		if text := t.frame(width, height); text != drawn {
			if _, err := io.WriteString(out, text); err != nil {
				return fail(exitFault, err)
			}
			drawn = text
		}
		select {
		case <-ctx.Done():
			return fail(code(), nil)
		case <-size.C: // the size is looked at above
		case b, ok := <-typed:
			was := t.view
			if !ok || t.press(string(b), height) {
				return nil
			}
			if was != t.view && !asking {
				asking, next = true, nil
				ask()
			}
		case <-next:
			asking, next = true, nil
			ask()
		case r := <-found:
			if r.panicked != "" {
				panic(r.panicked) // here, where the deferred calls above restore the terminal
			}
			asking = false
			t.take(r)
			if r.view != t.view {
				asking = true
				ask()
				continue
			}
			next = time.After(max(t.interval, 4*r.took))
		}
	}
}

func (t *top) refresh(ctx context.Context, view int) (r refresh) {
	r = refresh{view: view, at: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			r.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
	}()
	if r.load, r.err = readLoad(ctx, t.client); r.err == nil {
		r.rows, r.err = topViews[view].rows(ctx, t.client)
	}
	r.took = time.Since(r.at)
	return r
}

func (t *top) take(r refresh) {
	t.err = r.err
	if r.err != nil {
		return // the last data stays
	}
	if passed := r.at.Sub(t.at).Seconds(); !t.at.IsZero() && passed > 0 {
		t.perSecond = int64(float64(max(0, r.load.Commands-t.load.Commands)) / passed)
	}
	t.load, t.rows, t.at, t.shown = r.load, r.rows, r.at, r.view
}

// press handles what was typed, and reports whether it ends top.
func (t *top) press(typed string, height int) bool {
	page := max(1, height-topAround)
	for typed != "" {
		key := typed[:1]
		if strings.HasPrefix(typed, "\x1b[") || strings.HasPrefix(typed, "\x1bO") {
			key = typed[:min(len(typed), 3)]
		}
		typed = typed[len(key):]
		switch key {
		case "q", "Q", "\x03": // ^C
			return true
		case "\x1b[C", "\x1bOC", "\t", "l":
			t.show(t.view + 1)
		case "\x1b[D", "\x1bOD", "h":
			t.show(t.view - 1)
		case "\x1b[A", "\x1bOA", "k":
			t.scroll--
		case "\x1b[B", "\x1bOB", "j":
			t.scroll++
		case "\x1b[5", "\x1b[6": // page up and down, which end in a tilde
			t.scroll += page * (2*int(key[2]-'5') - 1)
			typed = strings.TrimPrefix(typed, "~")
		case "1", "2", "3", "4":
			t.show(int(key[0] - '1'))
		}
	}
	t.scroll = max(0, min(t.scroll, len(t.rows)-page))
	return false
}

func (t *top) show(view int) {
	t.view, t.scroll = (view+len(topViews))%len(topViews), 0
}

// topAround is the number of lines around the rows.
const topAround = 5

// frame returns the bytes that draw the screen.
func (t *top) frame(width, height int) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	lines := t.lines(width, height)
	for i, line := range lines {
		b.WriteString(line + "\x1b[K")
		if i < len(lines)-1 {
			b.WriteString("\r\n")
		}
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// lines returns at most height lines of at most width columns.
func (t *top) lines(width, height int) []string {
	l := t.load
	memory := byteSize(l.Memory)
	if l.MaxMemory > 0 {
		memory += " of " + byteSize(l.MaxMemory)
	}
	server := "redoubt top  " + t.address
	if l.Version != "" {
		server += "  Redis " + l.Version + "  up " + rounded(l.Uptime*1000)
	}
	lines := []string{
		t.look.bold(cut(server, width)),
		cut(fmt.Sprintf("%d clients (%d blocked)  %d commands/s  %s  %s", l.Clients, l.Blocked, t.perSecond, memory, keys(l.Keys)), width),
	}
	var tabs strings.Builder
	for i, v := range topViews {
		around := "  "
		if i == t.view {
			around = "[]"
		}
		fmt.Fprintf(&tabs, "%c%d %s%c", around[0], i+1, v.title, around[1])
	}
	lines = append(lines, t.look.name(cut(tabs.String(), width)))

	body := max(0, height-topAround)
	head, rows := topViews[t.view].head, t.rows
	if t.shown != t.view {
		rows = nil
	}
	from := max(0, min(t.scroll, len(rows)-body))
	table := align(append([][]string{head}, rows[from:min(len(rows), from+body)]...), width)
	lines = append(lines, t.look.bold(table[0]))
	lines = append(lines, table[1:]...)
	if len(rows) == 0 {
		text := "there are none: " + map[string]string{
			"queues": "redoubt queue put mail hello", "locks": "redoubt lock deploy -- sleep 60",
			"limits": "redoubt limit try mail:42 --rate 10/h", "stock": "redoubt stock set sku:42 100",
		}[topViews[t.view].title] + " makes one"
		if t.shown != t.view {
			text = "reading…"
		}
		lines = append(lines, cut(text, width))
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	foot := "q quit  ←→ list  ↑↓ scroll"
	if more := len(rows) - body; more > 0 {
		foot += fmt.Sprintf("  %d to %d of %d", from+1, min(len(rows), from+body), len(rows))
	}
	foot = cut(foot, width)
	if t.err != nil {
		text := "no answer: "
		if !t.at.IsZero() {
			text = "no answer since " + rounded(time.Since(t.at).Milliseconds()) + ": "
		}
		foot = t.look.bad(cut(printable(text+textOf(t.err)), width))
	}
	lines = append(lines[:max(0, min(len(lines), height-1))], foot)
	return lines[:min(len(lines), height)]
}

// align makes lines of rows whose columns are aligned by display width. The first column gives way if a line
// would be wider than width.
func align(rows [][]string, width int) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if over := total - width; over > 0 {
		widths[0] = max(8, widths[0]-over)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			if j == 0 {
				cell = cut(cell, widths[0])
			}
			b.WriteString(cell)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", max(0, widths[j]-uniseg.StringWidth(cell))+2))
			}
		}
		lines[i] = cut(b.String(), width)
	}
	return lines
}
