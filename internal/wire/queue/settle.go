package queue

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// ExtendCmd makes leases last at least lease from now, those of receipts that are
// held, at most [MaxSettle].
func ExtendCmd(keys Keys, lease time.Duration, receipts ...string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript, Keys: keys[keyLeases : keyLeases+1],
		Args: append([]string{millis(lease)}, receipts...), Flags: redoubt.Idempotent,
	}
}

// ReadFlags reads the reply to [ExtendCmd] and [RequeueCmd]: which were held, or
// dead.
func ReadFlags(r redoubt.Reply) ([]bool, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	flags := make([]bool, len(a))
	for i, v := range a {
		flags[i] = v == int64(1)
	}
	return flags, nil
}

// CancelCmd removes messages that are pending or running, at most [MaxSettle], or none and gives
// an error when that would hold up the server. See [Cancel].
func CancelCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "live", oneStep, ids, nil)
}

// DeleteCmd removes messages that are dead, at most [MaxSettle], or none and gives an error when
// that would hold up the server. See [Delete].
func DeleteCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "dead", oneStep, ids, nil)
}

// What a script is to do with more than it can in a short time: an error, or a part of it.
const oneStep, manySteps = "1", "0"

func cancelCmd(keys Keys, which, steps string, ids []string, seen map[string]string) redoubt.Cmd {
	args := append(make([]string, 0, 2+2*len(ids)), which, steps)
	for _, id := range ids {
		args = append(args, id, seen[id])
	}
	return redoubt.Cmd{Script: cancelScript, Keys: keys[:keyConfig], Args: args}
}

// Was is what a message was when it was to be removed.
type Was int8

const (
	// WasAbsent: it is not in the queue. For [DeleteCmd]: it is not dead.
	WasAbsent Was = iota
	// WasPending: ready, not due yet, or waiting for the turn of its group.
	WasPending
	// WasRunning: a consumer has it.
	WasRunning
	// WasDead: it is dead. [CancelCmd] leaves it alone.
	WasDead

	// wasUnknown: it is to be looked for.
	wasUnknown Was = -1
)

// ReadCancel reads the reply to [CancelCmd] and [DeleteCmd].
func ReadCancel(r redoubt.Reply) ([]Was, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	was := make([]Was, len(a))
	for i, v := range a {
		n, _ := v.(int64)
		was[i] = Was(n) //nolint:gosec // -1 to 3
	}
	return was, nil
}

// RequeueCmd gives messages that are dead all their attempts again, at most [MaxSettle], or none
// and gives an error when that would hold up the server. See [Requeue]. [ReadFlags] reads the reply.
func RequeueCmd(keys Keys, ids ...string) redoubt.Cmd { return requeueCmd(keys, oneStep, ids) }

func requeueCmd(keys Keys, steps string, ids []string) redoubt.Cmd {
	return redoubt.Cmd{Script: requeueScript, Keys: keys[:keyLeases], Args: append([]string{steps}, ids...)}
}

// DrainCmd removes at most n messages that are pending, 1 to [MaxSettle]: it begins
// with skip 0 and goes on with what [ReadDrain] says.
func DrainCmd(keys Keys, n, skip int) redoubt.Cmd {
	return redoubt.Cmd{
		Script: drainScript,
		Keys:   append(keys[:keyDead:keyDead], keys[keyWake], keys[keyFails], keys[keyLeases]),
		Args:   []string{strconv.Itoa(n), strconv.Itoa(skip)},
	}
}

// ReadDrain reads the reply to [DrainCmd]: how many were removed, and whether there
// may be more.
func ReadDrain(r redoubt.Reply) (removed, skip int, more bool, err error) {
	var n [3]int64
	err = r.Ints(n[:])
	return int(n[0]), int(n[1]), n[2] == 1, err
}
