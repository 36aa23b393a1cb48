package server

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // nothing is secured by it
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// info answers INFO: what the pool is, and how its servers do.
func (c *pooled) info(args [][]byte) {
	pool := c.pool
	wanted := func(section string) bool {
		return len(args) == 1 || slices.ContainsFunc(args[1:], func(a []byte) bool {
			return bytes.EqualFold(a, []byte(section)) || bytes.EqualFold(a, []byte("all")) ||
				bytes.EqualFold(a, []byte("everything")) || bytes.EqualFold(a, []byte("default"))
		})
	}
	var b strings.Builder
	section := func(name string) bool {
		if !wanted(name) {
			return false
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + name + "\r\n")
		return true
	}
	if section("Clients") {
		st := c.srv.Stats()
		fmt.Fprintf(&b, "connected_clients:%d\r\nmaxclients:%d\r\nmem_clients_normal:%d\r\nmaxmemory_clients:%d\r\n", st.Clients, c.srv.opts.MaxClients, st.Memory.Used, st.Memory.Limit)
	}
	if section("Pool") {
		o := pool.Options()
		fmt.Fprintf(&b, "pool_name:%s\r\n", o.Name)
		if c.slots != nil {
			fmt.Fprintf(&b, "cluster_known:%t\r\nhash_tag:%s\r\n", c.slots.Known(), o.Tag)
		} else {
			fmt.Fprintf(&b, "hash:%s\r\ndistribution:%s\r\nhash_tag:%s\r\nring_digest:%s\r\n", o.Hash, o.Distribution, o.Tag, pool.Digest())
		}
		fmt.Fprintf(&b, "servers:%d\r\n", len(pool.Nodes()))
	}
	if section("Servers") {
		for i, n := range pool.Nodes() {
			ejected, times := n.Ejected()
			if c.slots != nil {
				fmt.Fprintf(&b, "server%d:name=%s,up=%t,slots=%d,%s\r\n", i, n.Name(), n.Up(), c.slots.Count(n), countersOf(n))
				continue
			}
			fmt.Fprintf(&b, "server%d:name=%s,up=%t,ejected=%t,ejections=%d,%s\r\n", i, n.Name(), n.Up(), ejected, times, countersOf(n))
			for j, r := range n.Replicas() {
				fmt.Fprintf(&b, "server%d_replica%d:name=%s,up=%t,%s\r\n", i, j, r.Backend().Name(), r.Up(), countersOf(r))
			}
		}
	}
	// Keys may be secrets, so INFO shows these sections only when asked for them by name.
	named := func(section string) bool {
		return slices.ContainsFunc(args[1:], func(a []byte) bool { return bytes.EqualFold(a, []byte(section)) })
	}
	if named("hotkeys") && section("Hotkeys") {
		c.target.appendHotKeys(&b)
	}
	if slow := pool.Options().SlowLog; slow != nil && named("slowlog") && section("Slowlog") {
		appendSlow(&b, slow)
	}
	if asked := c.serversSections(args); len(asked) > 0 {
		local, digest, p := b.String(), pool.Digest(), c.protocol
		c.toAll(resp.AppendCommand(nil, append([]string{"INFO"}, asked...)...), func(dst []byte, j *join) []byte {
			return joinInfo(dst, p, j, local, digest)
		})
		return
	}
	c.text(b.String())
}

// serversSections are the sections of INFO that a client wants and the servers have to answer. A client that
// asks for no section wants none of them, so that it hears of the pool when a server is down.
func (c *pooled) serversSections(args [][]byte) (asked []string) {
	for _, name := range []string{"server", "commandstats", "errorstats", "keyspace"} {
		if name == "server" && c.slots != nil {
			continue // slots on their way would not show in its run_id
		}
		if slices.ContainsFunc(args[1:], func(a []byte) bool {
			return bytes.EqualFold(a, []byte(name)) || bytes.EqualFold(a, []byte("all")) || bytes.EqualFold(a, []byte("everything"))
		}) {
			asked = append(asked, name)
		}
	}
	return asked
}

// countersOf is what INFO tells of the connections to a server that clients share.
func countersOf(n *proxy.Node) string {
	var sum proxy.Stats
	for _, st := range n.Stats() {
		sum.Add(&st)
	}
	return fmt.Sprintf("connects=%d,losses=%d,waiting=%d,pending_bytes=%d,isolated=%d,isolated_waiting=%d",
		sum.Connects, sum.Losses, sum.Waiting, sum.Pending, sum.Isolated, sum.IsolatedWaiting)
}

// joinInfo adds the servers' sections of INFO to the pool's. The section Server has a run_id that stands
// for all processes and for the ring, so that it changes when a cursor of SCAN comes to mean nothing. The numbers
// of other sections are added up.
func joinInfo(dst []byte, p resp.Protocol, j *join, local, digest string) []byte {
	runs, version := sha1.New(), "" //nolint:gosec // nothing is secured by it
	_, _ = io.WriteString(runs, digest)
	var sections []string
	lines := make(map[string]*infoLine)
	names := make(map[string][]string) // of the lines of a section
	for _, raw := range j.replies {
		text, err := textOf(raw)
		if err != nil {
			return resp.AppendError(dst, "ERR redoubt: a server answered INFO with something else than text")
		}
		section, run := "", ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if title, ok := strings.CutPrefix(line, "# "); ok {
				if section = title; !slices.Contains(sections, title) {
					sections = append(sections, title)
				}
				continue
			}
			name, value, _ := strings.Cut(line, ":")
			switch {
			case name == "":
			case section == "Server" && name == "run_id":
				run = value
			case section == "Server" && name == "redis_version":
				version = cmp.Or(version, value)
			case section != "Server":
				if lines[name] == nil {
					lines[name] = new(infoLine)
					names[section] = append(names[section], name)
				}
				lines[name].add(value)
			}
		}
		if run == "" && slices.Contains(sections, "Server") {
			return resp.AppendError(dst, "ERR redoubt: a server's INFO has no run_id")
		}
		_, _ = io.WriteString(runs, " "+run)
	}
	var b strings.Builder
	b.WriteString(local)
	for _, section := range sections {
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + section + "\r\n")
		if section == "Server" {
			fmt.Fprintf(&b, "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:%x\r\n", version, runs.Sum(nil))
		}
		for _, name := range slices.Sorted(slices.Values(names[section])) {
			b.WriteString(name + ":" + lines[name].String() + "\r\n")
		}
	}
	return resp.AppendVerbatim(dst, p, "txt", b.String())
}

// An infoLine adds up lines of INFO like keys=3,expires=1,avg_ttl=900. Averages stay averages.
type infoLine struct {
	fields []string
	sums   map[string]float64
}

// averaged are the fields that are averages, and the field beside each that counts what it is an average of.
var averaged = map[string]string{"usec_per_call": "calls", "avg_ttl": "expires"}

func (l *infoLine) add(value string) {
	here := make(map[string]float64)
	for field := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(field, "=")
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			here[name] = n
			if !slices.Contains(l.fields, name) {
				l.fields = append(l.fields, name)
			}
		}
	}
	if l.sums == nil {
		l.sums = make(map[string]float64)
	}
	for name, n := range here {
		if of := averaged[name]; of != "" {
			n *= here[of]
		}
		l.sums[name] += n
	}
}

func (l *infoLine) String() string {
	var b strings.Builder
	for _, name := range l.fields {
		n, digits := l.sums[name], 0
		if of := averaged[name]; of != "" {
			n /= max(l.sums[of], 1)
		}
		if name == "usec_per_call" {
			digits = 2
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + "=" + strconv.FormatFloat(n, 'f', digits, 64))
	}
	return b.String()
}

// textOf is the text of a bulk or verbatim reply.
func textOf(raw []byte) (string, error) {
	v, _, err := resp.Parse(raw)
	switch v := v.(type) {
	case string:
		return v, err
	case resp.Verbatim:
		return v.Text, err
	}
	return "", cmp.Or(err, errNoText)
}

var errNoText = errors.New("the reply is no text")

// latencyHistogram answers LATENCY HISTOGRAM in front of a pool: the calls of all servers together. The other
// subcommands are about one server.
func (c *pooled) latencyHistogram(args [][]byte, raw []byte) {
	if !bytes.EqualFold(args[1], []byte("histogram")) {
		c.refuseCommand("LATENCY " + strings.ToUpper(string(args[1])))
		return
	}
	p := c.protocol
	c.toAll(raw, func(dst []byte, j *join) []byte { return joinHistograms(dst, p, j) })
}

// joinHistograms adds up replies to LATENCY HISTOGRAM. For each command they have its calls and, for times in µs
// at which that number grows, how many calls took at most so long.
func joinHistograms(dst []byte, p resp.Protocol, j *join) []byte {
	type histogram struct {
		calls int64
		steps map[int64]int64 // by time: more calls than at the step before
	}
	all := make(map[string]*histogram)
	for _, raw := range j.replies {
		v, _, err := resp.Parse(raw)
		if err != nil {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than histograms")
		}
		for name, of := range pairs(v) {
			name, _ := name.(string)
			h := all[name]
			if h == nil {
				h = &histogram{steps: make(map[int64]int64)}
				all[name] = h
			}
			for field, value := range pairs(of) {
				if n, ok := value.(int64); ok && field == "calls" {
					h.calls += n
				}
				before := int64(0)
				for micros, calls := range pairs(value) {
					micros, _ := micros.(int64)
					calls, _ := calls.(int64)
					h.steps[micros] += calls - before
					before = calls
				}
			}
		}
	}
	dst = resp.AppendMap(dst, p, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		dst = resp.AppendMap(resp.AppendBulk(dst, name), p, 2)
		dst = resp.AppendInt(resp.AppendBulk(dst, "calls"), h.calls)
		dst = resp.AppendMap(resp.AppendBulk(dst, "histogram_usec"), p, len(h.steps))
		sum := int64(0)
		for _, micros := range slices.Sorted(maps.Keys(h.steps)) {
			sum += h.steps[micros]
			dst = resp.AppendInt(resp.AppendInt(dst, micros), sum)
		}
	}
	return dst
}

// pairs are the keys and values of a map of RESP3, or of the flat array that RESP2 has for it.
func pairs(v any) iter.Seq2[any, any] {
	if m, ok := v.(resp.Map); ok {
		v = []any(m)
	}
	list, _ := v.([]any)
	return func(yield func(any, any) bool) {
		for i := 0; i+1 < len(list) && yield(list[i], list[i+1]); i += 2 {
		}
	}
}
