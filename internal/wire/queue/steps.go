package queue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// A script goes over at most 4,000 messages that are running or wait in one group, and works on
// 2 MiB of messages or one at a time: both take some 6 ms. The functions here do more than that in
// steps. Others see what the first steps have done, and an error leaves it done.

// Cancel does what [CancelCmd] does, for any number of messages. It returns what each
// message was that it reached before an error.
func Cancel(ctx context.Context, client *redoubt.Client, keys Keys, ids ...string) ([]Was, error) {
	return remove(ctx, client, keys, "live", ids)
}

// Delete does what [DeleteCmd] does, for any number of messages. It returns what each
// message was that it reached before an error.
func Delete(ctx context.Context, client *redoubt.Client, keys Keys, ids ...string) ([]Was, error) {
	return remove(ctx, client, keys, "dead", ids)
}

func remove(ctx context.Context, client *redoubt.Client, keys Keys, which string, ids []string) ([]Was, error) {
	all, err := removeSteps(ctx, client, keys, which, ids, nil)
	for tries := 1; err == nil; tries++ {
		var unknown []string
		var at []int
		for i, was := range all {
			if was == wasUnknown {
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
			// It may have moved while others were looked at; but not each time.
			if seen[id] == "" && tries > 2 {
				seen[id] = nowhere
			}
		}
		var found []Was
		found, err = removeSteps(ctx, client, keys, which, unknown, seen)
		for i, was := range found {
			all[at[i]] = was
		}
	}
	if i := slices.Index(all, wasUnknown); i >= 0 {
		all = all[:i]
	}
	return all, err
}

func removeSteps(ctx context.Context, client *redoubt.Client, keys Keys, which string, ids []string, seen map[string]string) ([]Was, error) {
	all := make([]Was, 0, len(ids))
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

// errNoStep is an answer that no script of ours gives.
var errNoStep = errors.New("queue: the server has done nothing")

// Requeue does what [RequeueCmd] does, for any number of messages.
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
func Find(ctx context.Context, client *redoubt.Client, keys Keys, id string) (Listed, error) {
	seen := ""
	for tries := 1; ; tries++ {
		l, err := ReadFind(client.Do(ctx, findCmd(keys, id, seen)), id)
		if !errors.Is(err, ErrManyRunning) {
			return l, err
		}
		receipts, err := runningOf(ctx, client, keys, []string{id}, receiptPattern(id))
		if err != nil {
			return Listed{}, err
		}
		if seen = receipts[id]; seen == "" && tries > 2 {
			seen = nowhere
		}
	}
}

const (
	// nowhere stands for the place of a message that was looked for and not seen.
	nowhere = "-"
	// lookAtOnce is how many receipts or members a server is asked for at a time.
	lookAtOnce = "2000"
)

// look returns where messages were seen: their receipts, or their members of their groups.
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

// placeLen is the length of a place in the line of a group.
const placeLen = 6

// groupOf returns what the members of a message's line begin with: the length of its group and
// the group; empty if it has none.
func groupOf(envelope string) string {
	if len(envelope) < 5 || envelope[0]%8 < 4 || len(envelope) < 4+int(envelope[3]) {
		return ""
	}
	return envelope[3 : 4+int(envelope[3])]
}

// runningOf returns the receipts of the messages that are running.
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

// receiptPattern matches the receipts of a message, as of SCAN.
func receiptPattern(id string) string {
	return strings.Repeat("?", takeLen) + globs.Replace(id)
}

var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
