package sentinel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options configure a [Group].
type Options struct {
	// Addrs are the Sentinels, each as host:port. At least one.
	Addrs []string
	// Username and Password are sent to the Sentinels when Password is not empty. An empty
	// Username means the default user.
	Username, Password string
	// TLS returns the configuration for the Sentinel at addr. Nil: no TLS.
	TLS func(addr string) *tls.Config
	// Poll is how often all masters are asked for. Defaults to 10 s.
	Poll time.Duration
	// Logger hears of switches, and of masters that can't be found. Defaults to none.
	Logger *slog.Logger
}

const (
	defaultPoll   = 10 * time.Second
	answerTimeout = time.Second            // of a Sentinel
	rest          = 100 * time.Millisecond // between two rounds of asking at least
	switched      = "+switch-master"
)

// A Group is the Sentinels that watch the masters of a pool. Its methods may be called by
// many goroutines at once.
type Group struct {
	opts      Options
	sentinels []*redis.SentinelClient
	wake      chan struct{}
	ctx       context.Context //nolint:containedctx // the Group's own: its end is Close
	stop      context.CancelFunc
	running   sync.WaitGroup

	mu      sync.Mutex
	masters []*Master
}

// New returns a Group, which begins to listen at once. Close it after use.
func New(o Options) (*Group, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("sentinel: Addrs is empty; want at least one")
	}
	if o.Poll < 0 {
		return nil, fmt.Errorf("sentinel: Poll is %v; want a positive time", o.Poll)
	}
	if o.Poll == 0 {
		o.Poll = defaultPoll
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Group{opts: o, wake: make(chan struct{}, 1)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	for _, addr := range o.Addrs {
		ro := &redis.Options{
			Addr: addr, Username: o.Username, Password: o.Password, MaxRetries: -1, DialerRetries: 1,
			DialTimeout: answerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		}
		if o.TLS != nil {
			ro.TLSConfig = o.TLS(addr)
		}
		s := redis.NewSentinelClient(ro)
		g.sentinels = append(g.sentinels, s)
		g.running.Go(func() { g.listen(s) })
	}
	g.running.Go(g.run)
	return g, nil
}

// Close ends the listening. The masters stay where they are.
func (g *Group) Close() error {
	g.stop()
	g.running.Wait()
	var errs []error
	for _, s := range g.sentinels {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// check has all masters asked for soon.
func (g *Group) check() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// listen hears of switches. Where there is a new connection, some may have been missed.
func (g *Group) listen(s *redis.SentinelClient) {
	sub := s.Subscribe(g.ctx, switched)
	defer sub.Close()
	told := sub.ChannelWithSubscriptions()
	for {
		select {
		case <-told:
			g.check()
		case <-g.ctx.Done():
			return
		}
	}
}

// run asks for all masters now, every Poll, and when there is a reason.
func (g *Group) run() {
	tick := time.NewTicker(g.opts.Poll)
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-g.ctx.Done():
			return
		}
		g.mu.Lock()
		masters := g.masters
		g.mu.Unlock()
		for _, m := range masters {
			_, _ = m.ask(g.ctx)
		}
		pause.Reset(rest)
		select {
		case <-tick.C:
		case <-g.wake:
		case <-g.ctx.Done():
			return
		}
	}
}

// An answer is what a Sentinel says of a master.
type answer struct {
	addr     string
	epoch    uint64 // of the configuration: the newest counts
	majority bool   // it is the newest of so many
	err      error
}

// ask asks all Sentinels for a master, and returns the newest answer of the first majority. If fewer
// answer, or the majority's answer is older than the known one, it takes the newest answer of all: during
// a switch one Sentinel knows of it before the others.
func (g *Group) ask(ctx context.Context, name string, known uint64) answer {
	answers := make(chan answer, len(g.sentinels))
	for i, s := range g.sentinels {
		go func() { answers <- askOne(ctx, s, g.opts.Addrs[i], name) }()
	}
	var best answer
	var errs []error
	for n := 0; (!best.majority || best.epoch < known) && n+len(errs) < len(g.sentinels); {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		if n++; n == 1 || a.epoch > best.epoch {
			best = a
		}
		best.majority = n > len(g.sentinels)/2
	}
	if best.addr == "" {
		best.err = errors.Join(errs...)
	}
	return best
}

// errUnknown says that a Sentinel doesn't watch a master of a name.
var errUnknown = errors.New("no such master")

// noSuchMaster begins a Sentinel's error reply for an unknown name. The reply has no code of its own.
const noSuchMaster = "ERR No such master"

// askOne asks one Sentinel, for the address first. In the other order an old address could have a new
// epoch, and outlast the news of the switch.
func askOne(ctx context.Context, s *redis.SentinelClient, sentinel, name string) answer {
	fail := func(err error) answer {
		if reply, refused := errors.AsType[redis.Error](err); errors.Is(err, redis.Nil) || refused && strings.HasPrefix(reply.Error(), noSuchMaster) {
			err = errUnknown
		}
		return answer{err: fmt.Errorf("Sentinel %s: %w", sentinel, err)} //nolint:staticcheck // it is a name
	}
	at, err := s.GetMasterAddrByName(ctx, name).Result()
	if err != nil {
		return fail(err)
	}
	state, err := s.Master(ctx, name).Result()
	if err != nil {
		return fail(err)
	}
	epoch, err := strconv.ParseUint(state["config-epoch"], 10, 64)
	if err != nil || len(at) != 2 {
		return fail(fmt.Errorf("it answers %q, config-epoch %q", at, state["config-epoch"]))
	}
	return answer{addr: net.JoinHostPort(at[0], at[1]), epoch: epoch}
}
