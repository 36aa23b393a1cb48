package attack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A ledger is a list on the server of one writer: its elements are 0, 1, 2, ….
type ledger struct {
	key         string
	sent, acked int64
	ackedAt     []time.Time // when what came up to there was acknowledged
}

func ledgers(rng *rand.Rand, n int) (all []*ledger) {
	for i := range n {
		all = append(all, &ledger{key: fmt.Sprintf("ledger:%08x:%d", rng.Uint32(), i)})
	}
	return all
}

// write appends until the connection breaks, the reply is an error, most are
// acknowledged, or ctx ends, in pipelines of some depth. It returns the error reply.
func (l *ledger) write(ctx context.Context, on *round, most int64, depth int, pad string) error {
	w := on.dial()
	if w == nil {
		return nil
	}
	defer w.Close()
	for l.acked < most && ctx.Err() == nil {
		w.waits(patience)
		var b []byte
		n := min(int64(depth), most-l.acked)
		for i := range n {
			b = resp.AppendCommand(b, "RPUSH", l.key, strconv.FormatInt(l.acked+i, 10)+pad)
		}
		l.sent = l.acked + n
		if w.raw(b) != nil {
			return nil
		}
		for range n {
			reply, err := w.reply()
			if refused, ok := reply.(resp.Error); ok {
				return refused
			}
			if err != nil {
				return nil
			}
			if l.acked++; reply != l.acked {
				on.fault("RPUSH %s: the reply is %v, want %d", l.key, reply, l.acked)
				return nil
			}
			l.ackedAt = append(l.ackedAt, time.Now())
		}
	}
	return nil
}

// check compares the list on the server with at least how much of it must be there.
func (l *ledger) check(on *round, least int64, after string) {
	c := on.caller()
	defer c.close()
	reply, err := c.do(patience, "LRANGE", l.key, "0", "-1")
	list, _ := reply.([]any)
	if n := int64(len(list)); err != nil || n < least || n > l.sent {
		on.fault("%s: %s has %d elements (%v); %d were acknowledged, %d sent, %d must be there", after, l.key, n, err, l.acked, l.sent, least)
		return
	}
	for i, e := range list {
		text, _ := e.(string)
		if text, _, _ = strings.Cut(text, " "); text != strconv.Itoa(i) {
			on.fault("%s: element %d of %s is %q", after, i, l.key, text)
			return
		}
	}
	l.acked = int64(len(list))
	l.sent = l.acked
	l.ackedAt = l.ackedAt[:min(len(list), len(l.ackedAt))]
}

// killedWhileWriting kills the process again and again under writes that are
// acknowledged once they are on disk.
func killedWhileWriting(ctx context.Context, rng *rand.Rand, on *round) {
	all := ledgers(rng, 4)
	for range 4 {
		if on.failed() {
			return
		}
		after := time.Duration(10+rng.IntN(120)) * time.Millisecond
		compact := rng.IntN(2) == 0
		killer := time.AfterFunc(after, func() { on.signal(syscall.SIGKILL) })
		each(rng, len(all)+1, func(i int, rng *rand.Rand) {
			if i < len(all) {
				_ = all[i].write(ctx, on, 1<<40, 1+rng.IntN(40), strings.Repeat(" x", rng.IntN(100))) // It ends by the kill.
			} else if compact {
				c := on.caller()
				defer c.close()
				_, _ = c.do(patience, "BGREWRITEAOF") // as above
			}
		})
		killer.Stop()
		on.kill()
		if err := on.start(on.mostMemory()); err != nil {
			on.fault("after kill -9 it does not start: %v, %v", err, on.cmd.ProcessState)
			return
		}
		for _, l := range all {
			l.check(on, l.acked, "after kill -9")
		}
	}
}

const exitDamaged = 65

// damagesLog writes, ends the process, damages a file of its log, and starts it:
// all is there, or it says that the directory is damaged.
func damagesLog(ctx context.Context, rng *rand.Rand, on *round) {
	all := ledgers(rng, 5)
	for part := range 2 {
		for _, l := range all {
			if err := l.write(ctx, on, int64((part+1)*(50+rng.IntN(200))), 50, strings.Repeat(" x", rng.IntN(50))); err != nil {
				on.fault("a write is refused: %v", err)
			}
		}
		if part == 0 && rng.IntN(2) == 0 {
			c := on.caller()
			_, _ = c.do(patience, "BGREWRITEAOF") // The log has another form then.
			c.close()
		}
	}
	on.signal(syscall.SIGTERM)
	if !on.gone(drain + slack) {
		on.fault("SIGTERM: the process still runs after %v", drain+slack)
		return
	}
	whole := on.dir
	defer func() {
		_ = os.RemoveAll(whole) // The next pass begins with nothing.
		if err := on.start(on.mostMemory()); err != nil {
			on.fault("on an empty directory it does not start: %v", err)
		}
	}()
	for range 4 {
		copied, err := os.MkdirTemp(filepath.Dir(whole), "damaged")
		if err == nil {
			err = os.CopyFS(filepath.Join(copied, "data"), os.DirFS(whole))
		}
		if err != nil {
			on.fault("%v", err)
			return
		}
		what, err := damage(rng, filepath.Join(copied, "data"))
		if err != nil {
			on.fault("%v", err)
			return
		}
		on.sending([]byte(what))
		on.args = slices.Concat(on.args, []string{"--dir=" + filepath.Join(copied, "data")})
		switch err := on.start(on.mostMemory()); {
		case errors.Is(err, errEnded):
			if code := on.cmd.ProcessState.ExitCode(); code != exitDamaged {
				on.fault("%s: exit code %d, want %d", what, code, exitDamaged)
			}
		case err != nil:
			on.fault("%s: %v", what, err)
		default:
			for _, l := range all {
				now := *l
				now.check(on, l.acked, what+" was opened")
			}
			on.kill()
		}
		on.args = on.args[:len(on.args)-1]
		_ = os.RemoveAll(copied) // The test's directory goes at its end.
		if on.failed() {
			return
		}
	}
}

// damage changes one file of a directory, and says what it did.
func damage(rng *rand.Rand, dir string) (what string, err error) {
	var files []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Size() > 0 {
			files = append(files, e.Name())
		}
	}
	if len(files) == 0 {
		return "", errors.New("the directory of the log has no file that is not empty")
	}
	name := files[rng.IntN(len(files))]
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	at := rng.IntN(len(b))
	switch rng.IntN(6) {
	case 0:
		return "a directory without " + name, os.Remove(path)
	case 1:
		what, b = "a directory with an empty "+name, nil
	case 2:
		what, b = fmt.Sprintf("%s, cut from %d to %d bytes,", name, len(b), at), b[:at]
	case 3:
		b[at] ^= 1 << rng.IntN(8)
		what = fmt.Sprintf("%s with a bit flipped in byte %d of %d", name, at, len(b))
	case 4:
		n := min(len(b)-at, 1+rng.IntN(4096))
		clear(b[at : at+n])
		what = fmt.Sprintf("%s with %d bytes of zeros at %d of %d", name, n, at, len(b))
	default:
		n := min(len(b)-at, 1+rng.IntN(100))
		what = fmt.Sprintf("%s without %d bytes at %d of %d", name, n, at, len(b))
		b = slices.Delete(b, at, at+n)
	}
	return what, os.WriteFile(path, b, 0o600)
}

// failingWrites lets the files of the log grow no further, under `everysec`, and
// kills the process. It may go on in another file, or refuse writes from then on.
func failingWrites(ctx context.Context, rng *rand.Rand, on *round) {
	all := ledgers(rng, 3)
	limit := uint64(1<<17 + rng.IntN(1<<19))
	if err := unix.Prlimit(on.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		on.fault("prlimit: %v", err)
		return
	}
	var refusedAt atomic.Int64
	var once sync.Once
	writing, stop := context.WithTimeout(ctx, time.Duration(2+rng.IntN(3))*time.Second)
	defer stop()
	each(rng, len(all), func(i int, rng *rand.Rand) {
		for writing.Err() == nil && on.running() && refusedAt.Load() == 0 {
			if err := all[i].write(writing, on, all[i].acked+20, 20, strings.Repeat(" x", 200+rng.IntN(100))); err != nil {
				once.Do(func() { refusedAt.Store(time.Now().UnixNano()) })
			}
			pause(writing, 2*time.Millisecond)
		}
	})
	if !on.running() {
		on.fault("the process ended when its log could not be written: %v", on.cmd.ProcessState)
		return
	}
	// A refusal may cost the two seconds before it, a kill some milliseconds. The
	// machine may be busy: a second more.
	safe := time.Now().Add(-time.Second)
	if at := refusedAt.Load(); at != 0 {
		safe = time.Unix(0, at).Add(-3 * time.Second)
	}
	on.kill()
	if err := on.start(on.mostMemory()); err != nil {
		on.fault("after the writes that failed it does not start: %v, %v", err, on.cmd.ProcessState)
		return
	}
	for _, l := range all {
		least := int64(0)
		for least < l.acked && l.ackedAt[least].Before(safe) {
			least++
		}
		l.check(on, least, "after writes that failed")
	}
}

// fills writes values of all types until the limit of memory refuses them, or
// others go, and lets the log be compacted meanwhile.
func fills(ctx context.Context, rng *rand.Rand, on *round) {
	end := time.Now().Add(2 * time.Second)
	each(rng, 5, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		refused := 0
		for n := 0; refused < 200 && time.Now().Before(end) && ctx.Err() == nil; n++ {
			key := fmt.Sprintf("fill:%d:%d", i, n)
			args := [][]string{
				{"SET", key, strings.Repeat("x", rng.IntN(200000))}, {"RPUSH", key}, {"SADD", key}, {"HSET", key}, {"ZADD", key}, {"SETRANGE", key, strconv.Itoa(rng.IntN(1 << 20)), "x"},
			}[rng.IntN(6)]
			for k := range map[bool]int{true: 2 * (1 + rng.IntN(300)), false: 0}[len(args) == 2] {
				args = append(args, strconv.Itoa(k)+strings.Repeat("3", rng.IntN(20)))
			}
			reply, err := c.do(patience, args...)
			if err != nil {
				return
			}
			if e, ok := reply.(resp.Error); ok && e.Code() == "OOM" {
				refused++
			}
			if n%300 == 299 {
				_, _ = c.do(patience, "BGREWRITEAOF") // One at a time is enough.
			}
		}
		if v, err := c.do(patience, "PING"); err != nil || v != "PONG" {
			on.fault("PING at the limit of memory: %v, %v", v, err)
		}
	})
	c := on.caller()
	defer c.close()
	if v, err := c.do(patience, "FLUSHALL"); err != nil || v != "OK" {
		on.fault("FLUSHALL at the limit of memory: %v, %v", v, err)
	}
}
