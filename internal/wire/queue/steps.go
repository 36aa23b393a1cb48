package queue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// A script searches at most 4,000 messages that are running or wait in one group, and changes at most
// 2 MiB of messages, or one larger message: both take some 6 ms. The functions below split more work
// into several scripts. Other clients can see the state in between; an error leaves it.

// Cancel does what [CancelCmd] does, for any number of messages. Before an error it returns the
// states of the messages that it reached.
func Cancel(ctx context.Context, client *redoubt.Client, keys Keys, ids ...string) ([]State, error) {
	return remove(ctx, client, keys, "live", ids)
}

// Delete does what [DeleteCmd] does, for any number of messages. Before an error it returns the
// states of the messages that it reached.
func Delete(ctx context.Context, client *redoubt.Client, keys Keys, ids ...string) ([]State, error) {
	return remove(ctx, client, keys, "dead", ids)
}

func remove(ctx context.Context, client *redoubt.Client, keys Keys, which string, ids []string) ([]State, error) {
	all, err := removeSteps(ctx, client, keys, which, ids, nil)
	for tries := 1; err == nil; tries++ {
		var unknown []string
		var at []int
		for i, was := range all {
			if was == stateUnknown {
				unknown, at = append(unknown, ids[i]), append(at, i)
			}
		}
		if len(unknown) == 0 {
			break
		}
		var seen map[string]string
		if seen, err = look(ctx, client, keys, unknown); err != nil {
			break
		}
		for _, id := range unknown {
			// It may have moved during the search; but not every time.
			if seen[id] == "" && tries > 2 {
				seen[id] = notFound
			}
		}
		var found []State
		found, err = removeSteps(ctx, client, keys, which, unknown, seen)
		for i, was := range found {
			all[at[i]] = was
		}
	}
	if i := slices.Index(all, stateUnknown); i >= 0 {
		all = all[:i]
	}
	return all, err
}

func removeSteps(ctx context.Context, client *redoubt.Client, keys Keys, which string, ids []string, seen map[string]string) ([]State, error) {
	all := make([]State, 0, len(ids))
	for len(all) < len(ids) {
		rest := ids[len(all):]
		was, err := ReadCancel(client.Do(ctx, cancelCmd(keys, which, manySteps, rest[:min(len(rest), MaxSettle)], seen)))
		if err == nil && len(was) == 0 {
			err = errNoStep
		}
		if err != nil {
			return all, err
		}
		all = append(all, was...)
	}
	return all, nil
}

// errNoStep reports a reply that none of our scripts gives.
var errNoStep = errors.New("queue: the server has done nothing")

// Requeue does what [RequeueCmd] does, for any number of messages. Before an error it returns the
// flags of the messages that it reached.
func Requeue(ctx context.Context, client *redoubt.Client, keys Keys, ids ...string) ([]bool, error) {
	all := make([]bool, 0, len(ids))
	for len(all) < len(ids) {
		rest := ids[len(all):]
		dead, err := ReadFlags(client.Do(ctx, requeueCmd(keys, manySteps, rest[:min(len(rest), MaxSettle)])))
		if err == nil && len(dead) == 0 {
			err = errNoStep
		}
		if err != nil {
			return all, err
		}
		all = append(all, dead...)
	}
	return all, nil
}

// Find does what [FindCmd] does, however many messages are running.
func Find(ctx context.Context, client *redoubt.Client, keys Keys, id string) (MessageInfo, error) {
	seen := ""
	for tries := 1; ; tries++ {
		l, err := ReadFind(client.Do(ctx, findCmd(keys, id, seen)), id)
		if !errors.Is(err, ErrManyRunning) {
			return l, err
		}
		receipts, err := runningOf(ctx, client, keys, []string{id}, receiptPattern(id))
		if err != nil {
			return MessageInfo{}, err
		}
		if seen = receipts[id]; seen == "" && tries > 2 {
			seen = notFound
		}
	}
}

const (
	// notFound tells a script that a search for a message found no place.
	notFound = "-"
	// lookAtOnce is how many receipts or members one command of a search reads.
	lookAtOnce = "2000"
)

// look searches for messages and returns the place of each: a receipt, or a member of the sorted set
// of groups.
func look(ctx context.Context, client *redoubt.Client, keys Keys, ids []string) (map[string]string, error) {
	seen, err := runningOf(ctx, client, keys, ids, "")
	if err != nil {
		return nil, err
	}
	groups := map[string]map[string]bool{}
	for _, id := range ids {
		if seen[id] != "" {
			continue
		}
		r := client.Do(ctx, redoubt.Cmd{Name: "HGET", Keys: keys[keyQueue : keyQueue+1], Args: []string{id}, Flags: redoubt.ReadOnly})
		if r.Err != nil {
			return nil, r.Err
		}
		envelope, _ := r.Val.(string)
		if group := groupOf(envelope); group != "" {
			if groups[group] == nil {
				groups[group] = map[string]bool{}
			}
			groups[group][id] = true
		}
	}
	for group, wanted := range groups {
		for from := "[" + group; from != ""; {
			r := client.Do(ctx, redoubt.Cmd{Name: "ZRANGEBYLEX", Keys: keys[keyGroups : keyGroups+1],
				Args: []string{from, "(" + group + "\xff", "LIMIT", "0", lookAtOnce}, Flags: redoubt.ReadOnly})
			members, err := r.Array()
			if err != nil {
				return nil, err
			}
			from = ""
			for _, v := range members {
				member, _ := v.(string)
				from = "(" + member
				if at := len(group) + placeLen; len(member) > at && wanted[member[at:]] {
					seen[member[at:]] = member
				}
			}
		}
	}
	return seen, nil
}

// placeLen is the length of the sequence number inside a member of the groups.
const placeLen = 6

// groupOf returns the prefix of the members of a message's group: the length of the group's name and
// the name. It is empty for a message without a group.
func groupOf(envelope string) string {
	if len(envelope) < 5 || envelope[0]%8 < 4 || len(envelope) < 4+int(envelope[3]) {
		return ""
	}
	return envelope[3 : 4+int(envelope[3])]
}

// runningOf returns the receipts of those ids that are running. pattern, if not empty, narrows the scan.
func runningOf(ctx context.Context, client *redoubt.Client, keys Keys, ids []string, pattern string) (map[string]string, error) {
	wanted, receipts := map[string]bool{}, map[string]string{}
	for _, id := range ids {
		wanted[id] = true
	}
	for cursor := "0"; ; {
		args := []string{cursor, "COUNT", lookAtOnce}
		if pattern != "" {
			args = append(args, "MATCH", pattern)
		}
		a, err := client.Do(ctx, redoubt.Cmd{Name: "ZSCAN", Keys: keys[keyLeases : keyLeases+1], Args: args, Flags: redoubt.ReadOnly}).Array()
		if err == nil && len(a) != 2 {
			err = errNoStep
		}
		if err != nil {
			return nil, err
		}
		page, _ := a[1].([]any)
		for i := 0; i < len(page); i += 2 {
			receipt, _ := page[i].(string)
			if id := IDOf(receipt); wanted[id] {
				receipts[id] = receipt
			}
		}
		if cursor, _ = a[0].(string); cursor == "0" {
			return receipts, nil
		}
	}
}

// receiptPattern is the glob pattern of a message's receipts.
func receiptPattern(id string) string {
	return strings.Repeat("?", takeLen) + globs.Replace(id)
}

var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
