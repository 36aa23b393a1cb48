package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
)

// MaxSettle is how many receipts or ids one call may name, and how many messages one
// call may take.
const MaxSettle = 1000

// A Pump settles messages and takes others in one step. Any part may be empty.
type Pump struct {
	// Consumer names the consumer, in letters, digits, - and _. Take names this take
	// and is unique: see [NewTake]. A consumer that repeats its last take gets the same
	// messages.
	Consumer, Take string
	// Repeats is for a consumer that does not know the name of its last take. The
	// server returns the messages of the last take that are still held, and takes
	// others only if none is.
	Repeats bool
	// N is how many messages to take, or [Leave].
	N int
	// Lease is how long the taken messages belong to the consumer.
	Lease time.Duration
	// Acks are receipts of messages that are done.
	Acks []string
	// Results are messages that are done and keep a result.
	Results []Result
	// Nacks are messages that are not done.
	Nacks []Nack
	// Bounded makes the server check the size of the messages: several together may have
	// 2 MiB, or 16 MiB if no message of the queue has a group. If they have more, the
	// server changes nothing and replies with an error. A consumer that knows their sizes
	// does not need it.
	Bounded bool
}

// Leave, as the N of a [Pump], takes nothing and wakes another consumer, which may not
// know when the next message is due.
const Leave = -1

// A Result is kept for a time after a message is done.
type Result struct {
	Receipt string
	Value   string
	Keep    time.Duration
}

// A Nack returns a message to the queue, or makes it dead.
type Nack struct {
	Receipt string
	Kind    NackKind
	// Delay is the time until the message is due again. Negative: a second, doubled
	// with each failure up to ten minutes.
	Delay time.Duration
	// Reason is shown to people.
	Reason string
}

// NackKind says what a [Nack] does.
type NackKind string

const (
	// Retry counts a failure. The message dies if that was its last attempt.
	Retry NackKind = "fail"
	// Kill makes it dead at once.
	Kill NackKind = "dead"
	// Snooze counts no failure.
	Snooze NackKind = "snooze"
	// HandBack makes it ready at once, in front of all others, and counts no failure.
	HandBack NackKind = "back"
)

// PumpCmd runs a Pump. A repeated command changes nothing more and returns the same messages
// until their lease has run out.
func PumpCmd(keys Keys, p Pump) redoubt.Cmd {
	names := append(keys[:len(keys):len(keys)], keys[keyQueue]+":take:"+p.Consumer)
	args := make([]string, 0, 6+len(p.Acks)+3*len(p.Results)+4*len(p.Nacks))
	flags := int64(0)
	if p.Repeats {
		flags++
	}
	if p.Bounded {
		flags += 2
	}
	args = append(args, p.Take, decimal(int64(p.N)), millis(p.Lease), decimal(int64(len(p.Acks))), decimal(int64(len(p.Results))), decimal(flags))
	args = append(args, p.Acks...)
	for _, r := range p.Results {
		names = append(names, keys.result(IDOf(r.Receipt)))
		args = append(args, r.Receipt, millis(r.Keep), r.Value)
	}
	for _, f := range p.Nacks {
		delay := "-1"
		if f.Delay >= 0 {
			delay = millis(f.Delay)
		}
		args = append(args, f.Receipt, string(f.Kind), delay, f.Reason)
	}
	return redoubt.Cmd{Script: pumpScript, Keys: names, Args: args, Flags: redoubt.Idempotent}
}

// A Pumped is the result of a [Pump].
type Pumped struct {
	// Now is the server's time.
	Now time.Time
	// Next is the time until another pump may find a message; negative if none is due.
	Next time.Duration
	// Ready is how many messages are ready and were not taken.
	Ready int
	// Again: the take was repeated.
	Again bool
	// Refused are the positions of receipts that were not held, counted from 0 over
	// Acks, Results and Nacks in this order.
	Refused []int
	// Taken are the messages.
	Taken []Taken
	// Unreadable are taken entries that are no messages: another program wrote them.
	// Their payload is all that was written. See [Pumped.KillUnreadable].
	Unreadable []Taken
}

// KillUnreadable returns the Nacks that make the Unreadable entries dead, for the next [Pump].
func (p *Pumped) KillUnreadable() []Nack {
	nacks := make([]Nack, len(p.Unreadable))
	for i := range p.Unreadable {
		nacks[i] = Nack{Receipt: p.Unreadable[i].Receipt, Kind: Kill, Reason: ErrEnvelope.Error()}
	}
	return nacks
}

// Take runs a Pump that only takes. It makes unreadable entries dead and takes the next
// messages instead, in another round trip.
func Take(ctx context.Context, client *redoubt.Client, keys Keys, p Pump) (Pumped, error) {
	for {
		got, err := ReadPump(client.Do(ctx, PumpCmd(keys, p)))
		if len(got.Unreadable) == 0 {
			return got, err
		}
		p.Nacks = got.KillUnreadable() // the repeated take returns the others, or takes more
	}
}

// A Taken is a message on lease.
type Taken struct {
	Message
	// Receipt settles and extends it.
	Receipt string
	// Failures counts its failures; LastReason is the reason of the last.
	Failures   int
	LastReason string
	// Since is when it became ready; zero if that is no longer known.
	Since time.Time
}

// ReadPump reads the reply to [PumpCmd].
func ReadPump(r redoubt.Reply) (p Pumped, err error) {
	a, err := r.Array()
	if err != nil {
		return p, err
	}
	var n [4]int64
	if len(a) != 6 {
		return p, fmt.Errorf("queue: reply has %d elements, want 6", len(a))
	}
	if err := (redoubt.Reply{Val: a[:4]}).Ints(n[:]); err != nil {
		return p, err
	}
	p = Pumped{Now: time.UnixMilli(n[0]), Next: fromMillis(n[1]), Ready: int(n[2]), Again: n[3] == 1}
	refused, _ := a[4].([]any)
	for _, v := range refused {
		i, _ := v.(int64)
		p.Refused = append(p.Refused, int(i)-1)
	}
	taken, _ := a[5].([]any)
	p.Taken = make([]Taken, 0, len(taken)/4)
	for ; len(taken) >= 4; taken = taken[4:] {
		receipt, _ := taken[0].(string)
		entry, _ := taken[1].(string)
		since, _ := taken[2].(int64)
		envelope, _ := taken[3].(string)
		t := Taken{Receipt: receipt}
		t.Failures, t.LastReason = failure(entry)
		if since > frontMillis {
			t.Since = time.UnixMilli(since)
		}
		var readable bool
		if t.Message, readable = openAny(IDOf(receipt), envelope); readable {
			p.Taken = append(p.Taken, t)
		} else {
			p.Unreadable = append(p.Unreadable, t)
		}
	}
	return p, nil
}

// frontMillis is the time that the scripts give to a message in front of all others.
const frontMillis = 1_577_836_800_000

// TimeCmd asks for the server's time.
func TimeCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{Script: timeScript, Keys: keys[keyQueue : keyQueue+1], Flags: redoubt.ReadOnly}
}

// ReadTime reads the reply to [TimeCmd].
func ReadTime(r redoubt.Reply) (time.Time, error) {
	var us [1]int64
	err := r.Ints(us[:])
	return time.UnixMicro(us[0]), err
}
