package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A memoryJournal keeps what it is told.
type memoryJournal struct{ effects []Effect }

func (j *memoryJournal) Append(e Effect) {
	kept := Effect{DB: e.DB}
	for _, cmd := range e.Commands {
		kept.Commands = append(kept.Commands, cloneArgs(cmd))
	}
	j.effects = append(j.effects, kept)
}

// TestManyFieldsExpireInSteps wants a hash whose fields expire at the same
// moment to lose them some at a time, whether by itself or before it is read.
func TestManyFieldsExpireInSteps(t *testing.T) {
	const n = 10_000
	for _, read := range []string{"", "HLEN h", "HSET h f1 again", "HGETALL h"} {
		clock, j := newFakeClock(), &memoryJournal{}
		e := open(t, Options{Clock: clock, Journal: j})
		s := e.Session()
		run(s, "DEBUG SET-ACTIVE-EXPIRE 0")
		fields := fmt.Sprint("FIELDS ", n)
		for i := range n {
			run(s, fmt.Sprintf("HSET h f%d v", i))
			fields += fmt.Sprint(" f", i)
		}
		run(s, "HSET h stays v")
		run(s, "HPEXPIRE h 1000 "+fields)
		j.effects = nil
		clock.advance(2 * time.Second)
		left := "1"
		switch read {
		case "":
			for i, more := shardOf([]byte("h")), true; more; {
				_, more = e.sweepShard(i)
			}
		case "HSET h f1 again":
			left = "2"
			fallthrough
		default:
			run(s, read)
		}
		want(t, s, "HLEN h", ":"+left+"\r\n")
		gone := 0
		for _, effect := range j.effects {
			of := 0
			for _, cmd := range effect.Commands {
				if string(cmd[0]) == "HDEL" {
					of += len(cmd) - 2
				}
			}
			if gone += of; of > 2048 {
				t.Errorf("%q: %d fields expired at once", read, of)
			}
		}
		if gone != n {
			t.Errorf("%q: %d fields expired", read, gone)
		}
	}
}

// TestJournalRepeats runs random commands, repeats what the journal was told
// on an empty engine, and wants the same keys there.
func TestJournalRepeats(t *testing.T) {
	for name, own := range templates {
		t.Run(name, func(t *testing.T) {
			v, steps := newVocabulary(randtest.Rand(t)), randtest.Watch(t)
			clock, j := newFakeClock(), &memoryJournal{}
			s := open(t, Options{Clock: clock, Journal: j}).Session()
			for range 4000 {
				list := own
				if v.r.IntN(5) == 0 && name != "multi" {
					list = general
				}
				tryStep(steps, s, v.fill(list[v.r.IntN(len(list))]))
			}
			run(s, "DISCARD")
			again := open(t, Options{Clock: clock}).Session()
			for _, e := range j.effects {
				run(again, fmt.Sprint("SELECT ", e.DB))
				for _, cmd := range e.Commands {
					again.Do(nil, cmd)
				}
			}
			for _, db := range []string{"0", "1"} {
				run(s, "SELECT "+db)
				run(again, "SELECT "+db)
				want(t, again, "DBSIZE", run(s, "DBSIZE"))
				for i := range 5 {
					for _, cmd := range []string{"GET {t}%d", "LRANGE {t}%d 0 -1", "HGETALL {t}%d", "SMEMBERS {t}%d", "ZRANGE {t}%d 0 -1 WITHSCORES", "XINFO STREAM {t}%d FULL COUNT 0", "PTTL {t}%d"} {
						line := fmt.Sprintf(cmd, i+1)
						word, got := alike(run(s, line), cmd), alike(run(again, line), cmd)
						if got != word {
							t.Errorf("%s: got %q, want %q", line, got, word)
						}
					}
				}
			}
		})
	}
}

// alike returns a reply without what two equal keys may differ in: the order
// of a hash or a set, and the sign of a score of zero. A small sorted set keeps no
// such sign and a large one does, as in Redis, and one that has shrunk stays large
// where it shrank.
func alike(reply, cmd string) string {
	switch cmd[0] {
	case 'H':
		return string(normalize("hgetall", []byte(reply)))
	case 'S':
		return string(normalize("smembers", []byte(reply)))
	case 'Z':
		return strings.ReplaceAll(reply, "\r\n$2\r\n-0\r\n", "\r\n$1\r\n0\r\n")
	}
	return reply
}
