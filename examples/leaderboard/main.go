// Leaderboard ranks players by their points of a day, of a week, and of all time. Redoubt has no type for
// that: the program uses Redis' sorted sets through the same client as Redoubt's types.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine"  // opens embedded:
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the boards; $REDOUBT_URL sets the default")
	day := flag.String("day", time.Now().UTC().Format(time.DateOnly), "`day` of the example, as YYYY-MM-DD")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *day); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, day string) error {
	today, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	client, err := redoubt.Open(ctx, url, redoubt.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	board := leaderboard{client: client, game: "example-leaderboard"}
	yesterday := today.AddDate(0, 0, -1)
	for _, old := range []string{board.day(today), board.day(yesterday), board.week(today), board.week(yesterday), board.ever()} {
		if err := client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{old}}).Err; err != nil {
			return err
		}
	}
	for _, e := range []struct {
		player string
		points int
		at     time.Time
	}{
		{"ann", 120, yesterday},
		{"dan", 300, yesterday},
		{"ann", 50, today},
		{"bob", 80, today},
		{"cai", 80, today},
		{"dan", 10, today},
		{"eve", 95, today},
	} {
		if err := board.add(ctx, e.player, e.points, e.at); err != nil {
			return err
		}
	}
	for _, b := range []struct{ title, key string }{
		{"today", board.day(today)}, {"yesterday", board.day(yesterday)}, {"all time", board.ever()},
	} {
		if err := board.show(ctx, b.title, b.key, "ann"); err != nil {
			return err
		}
	}
	_, week := today.ISOWeek()
	return board.show(ctx, fmt.Sprint("week ", week), board.week(today), "ann")
}

// A leaderboard keeps a sorted set for each window. The name of the game is in braces, so all of them
// are on one node of a cluster, and one script changes them together.
type leaderboard struct {
	client *redoubt.Client
	game   string
}

func (l leaderboard) key(window string) string { return "{" + l.game + "}:board:" + window }

func (l leaderboard) day(t time.Time) string { return l.key(t.Format(time.DateOnly)) }

func (l leaderboard) week(t time.Time) string {
	year, week := t.ISOWeek()
	return l.key(fmt.Sprintf("%d-W%02d", year, week))
}

func (l leaderboard) ever() string { return l.key("ever") }

//go:embed add.lua
var addSource string

var addScript = redoubt.NewScript("leaderboard.add", addSource)

// add adds points to the boards of all windows around at, all or none. After an error that matches
// redoubt.ErrUnknownOutcome the points may have been added: calling again could add them twice.
func (l leaderboard) add(ctx context.Context, player string, points int, at time.Time) error {
	const day = 24 * 60 * 60
	return l.client.Do(ctx, redoubt.Cmd{
		Script: addScript,
		Keys:   []string{l.day(at), l.week(at), l.ever()},
		Args:   []string{player, strconv.Itoa(points), strconv.Itoa(2 * day), strconv.Itoa(14 * day), "0"},
	}).Err
}

// A row is a player's place on a board. Players with equal points share a rank, and the next ranks are
// left out: 1, 2, 2, 4.
type row struct {
	rank   int64
	player string
	points int64
}

// top returns the first n rows.
func (l leaderboard) top(ctx context.Context, board string, n int) (rows []row, err error) {
	pairs, err := l.client.Do(ctx, redoubt.Cmd{
		Name: "ZREVRANGE", Keys: []string{board}, Args: []string{"0", strconv.Itoa(n - 1), "WITHSCORES"}, Flags: redoubt.ReadOnly,
	}).Array()
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		player, err := redoubt.Reply{Val: pairs[i]}.Text()
		if err != nil {
			return nil, err
		}
		points, err := redoubt.Reply{Val: pairs[i+1]}.Int()
		if err != nil {
			return nil, err
		}
		rank := int64(len(rows)) + 1
		if last := len(rows) - 1; last >= 0 && rows[last].points == points {
			rank = rows[last].rank
		}
		rows = append(rows, row{rank, player, points})
	}
	return rows, nil
}

// rank returns a player's row. ok is false for a player without points. ZREVRANK would order players with
// equal points by their names.
func (l leaderboard) rank(ctx context.Context, board, player string) (r row, ok bool, err error) {
	score := l.client.Do(ctx, redoubt.Cmd{Name: "ZSCORE", Keys: []string{board}, Args: []string{player}, Flags: redoubt.ReadOnly})
	if score.IsNil() {
		return row{}, false, nil
	}
	points, err := score.Int()
	if err != nil {
		return row{}, false, err
	}
	better, err := l.client.Do(ctx, redoubt.Cmd{
		Name: "ZCOUNT", Keys: []string{board}, Args: []string{"(" + strconv.FormatInt(points, 10), "+inf"}, Flags: redoubt.ReadOnly,
	}).Int()
	return row{better + 1, player, points}, err == nil, err
}

// show prints the first four of a board, and me.
func (l leaderboard) show(ctx context.Context, title, board, me string) error {
	rows, err := l.top(ctx, board, 4)
	if err != nil {
		return err
	}
	fmt.Println(title)
	for _, r := range rows {
		fmt.Printf("%4d. %-6s %4d\n", r.rank, r.player, r.points)
	}
	mine, ok, err := l.rank(ctx, board, me)
	switch {
	case err != nil:
		return err
	case ok:
		fmt.Printf("  %s is number %d with %d points\n", me, mine.rank, mine.points)
	default:
		fmt.Printf("  %s has no points\n", me)
	}
	return nil
}
