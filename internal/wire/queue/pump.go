package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
)

// MaxSettle is how many receipts or ids one call may name, and how many messages it
// may take.
const MaxSettle = 1000

// A Pump settles messages and takes others in one step: any part may be empty.
type Pump struct {
	// Consumer names whoever takes, in letters, digits, - and _. Take names what it
	// takes, and is of no other Pump: see [NewTake]. While a consumer repeats its
	// last take it gets the same messages.
	Consumer, Take string
	// Repeats is for a consumer that does not know the name of its last take: it gets
	// what it took last and still has, and takes others only if that is nothing.
	Repeats bool
	// N is how many to take. Leave is for a consumer that takes none and leaves.
	N int
	// Lease is for how long.
	Lease time.Duration
	// Acks are receipts of messages that are done.
	Acks []string
	// Results are those that leave something behind.
	Results []Result
	// Failed are those that are not done.
	Failed []Failed
	// Bounded settles several messages only if they have 2 MiB together, or 16 MiB where no message
	// of the queue has a group. Otherwise nothing is done, and the reply is an error. A consumer
	// that knows how large they are need not ask for it.
	Bounded bool
}

// Leave is an N for a consumer that takes nothing more: another one is woken, who
// may not know what is due when.
const Leave = -1

// A Result is what a message leaves behind, for a time.
type Result struct {
	Receipt string
	Value   string
	Keep    time.Duration
}

// A Failed is a message that comes back, or dies.
type Failed struct {
	Receipt string
	How     How
	// Delay is the time until it comes back; negative is a second, doubled with
	// each failure up to ten minutes.
	Delay time.Duration
	// Reason is shown to people.
	Reason string
}

// How a message comes back.
type How string

const (
	// Fail counts an attempt. The message dies of its last one.
	Fail How = "fail"
	// Bury makes it dead at once.
	Bury How = "dead"
	// Defer counts no attempt.
	Defer How = "snooze"
	// Back puts it in front of all others at once, and counts no attempt.
	Back How = "back"
)

// PumpCmd runs a Pump. Repeated it has no other effect and gives the same messages,
// until their lease has run out.
func PumpCmd(keys Keys, p Pump) redoubt.Cmd {
	names := append(keys[:len(keys):len(keys)], keys[keyQueue]+":take:"+p.Consumer)
	args := make([]string, 0, 6+len(p.Acks)+3*len(p.Results)+4*len(p.Failed))
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
	for _, f := range p.Failed {
		delay := "-1"
		if f.Delay >= 0 {
			delay = millis(f.Delay)
		}
		args = append(args, f.Receipt, string(f.How), delay, f.Reason)
	}
	return redoubt.Cmd{Script: pumpScript, Keys: names, Args: args, Flags: redoubt.Idempotent}
}

// A Pumped is the answer to a [Pump].
type Pumped struct {
	// Now is the server's time.
	Now time.Time
	// Next is when another pump may find something: negative if that is not known.
	Next time.Duration
	// Ready is how many messages are ready and were not taken.
	Ready int
	// Again: the take was repeated.
	Again bool
	// Refused are the positions of receipts that were not held, counting Acks,
	// Results and Failed from 0 up.
	Refused []int
	// Taken are the messages.
	Taken []Taken
	// Unreadable are those that were taken and are no messages, for something else
	// wrote them, with all that was written as their payload: see [Pumped.Burials].
	Unreadable []Taken
}

// Burials make the messages dead that can't be read: they are for the next [Pump].
func (p *Pumped) Burials() []Failed {
	failed := make([]Failed, len(p.Unreadable))
	for i := range p.Unreadable {
		failed[i] = Failed{Receipt: p.Unreadable[i].Receipt, How: Bury, Reason: ErrEnvelope.Error()}
	}
	return failed
}

// Take runs a Pump that takes and settles nothing. What it takes that can't be read it
// makes dead and takes the next instead, in another round trip.
func Take(ctx context.Context, client *redoubt.Client, keys Keys, p Pump) (Pumped, error) {
	for {
		got, err := ReadPump(client.Do(ctx, PumpCmd(keys, p)))
		if len(got.Unreadable) == 0 {
			return got, err
		}
		p.Failed = got.Burials() // the same take again has the others, or takes some
	}
}

// A Taken is a message on lease.
type Taken struct {
	Message
	// Receipt settles and extends it.
	Receipt string
	// Failures is how often it failed, and LastReason why.
	Failures   int
	LastReason string
	// Since is when it became ready; zero if that is not known any more.
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

// frontMillis is the time of what stands in front of all others.
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
