package queue

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// ExtendCmd makes the leases of receipts last at least lease from now. It takes at most [MaxSettle]
// receipts.
func ExtendCmd(keys Keys, lease time.Duration, receipts ...string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript, Keys: keys[keyLeases : keyLeases+1],
		Args: append([]string{millis(lease)}, receipts...), Flags: redoubt.Idempotent,
	}
}

// MaxProgress is how many bytes a note of progress has at most, and progressFor how long it is kept.
const (
	MaxProgress = 4096
	progressFor = time.Hour
)

// ProgressCmd notes how far the work on a message has come, if the receipt is held. [ReadFlags] reads
// the reply.
func ProgressCmd(keys Keys, receipt, note string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: noteScript, Keys: []string{keys[keyLeases], keys.progress(IDOf(receipt))},
		Args: []string{receipt, millis(progressFor), note}, Flags: redoubt.Idempotent,
	}
}

// ReadFlags reads the reply to [ExtendCmd], which leases were held, and to [RequeueCmd], which
// messages were dead.
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

// CancelCmd removes at most [MaxSettle] messages that are pending or running. If that would block the
// server for too long, it removes none and returns an error. See [Cancel].
func CancelCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "live", oneStep, ids, nil)
}

// DeleteCmd removes at most [MaxSettle] dead messages. If that would block the server for too long,
// it removes none and returns an error. See [Delete].
func DeleteCmd(keys Keys, ids ...string) redoubt.Cmd {
	return cancelCmd(keys, "dead", oneStep, ids, nil)
}

// oneStep makes a script fail if it has too much to do; manySteps makes it do a part.
const oneStep, manySteps = "1", "0"

func cancelCmd(keys Keys, which, steps string, ids []string, seen map[string]string) redoubt.Cmd {
	args := append(make([]string, 0, 2+2*len(ids)), which, steps)
	for _, id := range ids {
		args = append(args, id, seen[id])
	}
	return redoubt.Cmd{Script: cancelScript, Keys: keys.after(keyConfig), Args: args}
}

// ReadCancel reads the reply to [CancelCmd] and [DeleteCmd]: the state that each message had,
// [StateAbsent], [StatePending], [StateRunning] or [StateDead]. DeleteCmd calls every message absent
// that is not dead.
func ReadCancel(r redoubt.Reply) ([]State, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	states := make([]State, len(a))
	for i, v := range a {
		switch v {
		case int64(0):
			states[i] = StateAbsent
		case int64(1):
			states[i] = StatePending
		case int64(2):
			states[i] = StateRunning
		case int64(3):
			states[i] = StateDead
		default:
			states[i] = stateUnknown
		}
	}
	return states, nil
}

// RequeueCmd resets the attempts of at most [MaxSettle] dead messages and makes them ready. If that
// would block the server for too long, it changes none and returns an error. See [Requeue].
// [ReadFlags] reads the reply.
func RequeueCmd(keys Keys, ids ...string) redoubt.Cmd { return requeueCmd(keys, oneStep, ids) }

func requeueCmd(keys Keys, steps string, ids []string) redoubt.Cmd {
	return redoubt.Cmd{Script: requeueScript, Keys: keys.after(keyLeases), Args: append([]string{steps}, ids...)}
}

// DrainCmd removes at most n pending messages, 1 to [MaxSettle]. The first call has skip 0; later
// calls pass the skip that [ReadDrain] returned.
func DrainCmd(keys Keys, n, skip int) redoubt.Cmd {
	return redoubt.Cmd{
		Script: drainScript,
		Keys:   keys.after(keyConfig),
		Args:   []string{strconv.Itoa(n), strconv.Itoa(skip)},
	}
}

// ReadDrain reads the reply to [DrainCmd]: how many messages it removed, and whether
// there may be more.
func ReadDrain(r redoubt.Reply) (removed, skip int, more bool, err error) {
	var n [3]int64
	err = r.Ints(n[:])
	return int(n[0]), int(n[1]), n[2] == 1, err
}
