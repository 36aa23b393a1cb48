package dashboard

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// listStates are the states of messages that a page lists. "active" is what people call a running one.
var listStates = map[string]queuewire.State{
	"ready": queuewire.StateReady, "due": queuewire.StateDue, "active": queuewire.StateRunning, "dead": queuewire.StateDead,
}

const (
	// maxListed is how deep into a list a page may begin.
	maxListed = 1_000_000
	// searchRounds is how many pages of messages one request looks through for a search.
	searchRounds = 10
	// maxShown is how many bytes of a payload are shown.
	maxShown = 64 << 10
)

// messages answers api/queue: one page of the messages of a queue in one state. Payloads are left out.
func (h *Handler) messages(req *request) (any, error) {
	keys, name, err := req.queue("QUEUE.MESSAGES", "READY", "1")
	if err != nil {
		return nil, err
	}
	query := req.r.URL.Query()
	state, ok := listStates[query.Get("state")]
	if !ok {
		return nil, refuse(http.StatusBadRequest, "state is "+quoted(query.Get("state"))+"; want ready, due, active or dead")
	}
	from := 0
	if page := query.Get("page"); page != "" {
		if from, err = strconv.Atoi(page); err != nil || from < 0 || from > maxListed {
			return nil, refuse(http.StatusBadRequest, "page is "+quoted(page)+"; want next of the page before")
		}
	}
	q := query.Get("q")
	if len(q) > maxQuery {
		return nil, refuse(http.StatusBadRequest, "q has "+strconv.Itoa(len(q))+" bytes; want at most "+strconv.Itoa(maxQuery))
	}
	ctx, cancel := context.WithTimeout(req.ctx, answerTime)
	defer cancel()
	rows, all, next := []any{}, 0, ""
	for round := 0; ; round++ {
		cmd, err := queuewire.MessagesCmd(keys, state, from, pageRows)
		if err != nil {
			return nil, err
		}
		list, n, err := queuewire.ReadMessages(req.source.Client.Do(ctx, cmd), state)
		if err != nil {
			return nil, unavailable(err)
		}
		all = n
		for i := range list {
			if m := &list[i]; matches(m, q) {
				rows = append(rows, messageRow(m))
			}
		}
		from += len(list)
		if len(list) < pageRows || from >= all {
			break
		}
		if len(rows) >= pageRows || q == "" || round == searchRounds-1 {
			next = strconv.Itoa(from)
			break
		}
	}
	return map[string]any{"name": printable(name), "ref": ref(name), "state": query.Get("state"), "all": all, "rows": rows, "next": next}, nil
}

// unavailable is an error of the back end as an answer.
func unavailable(err error) error {
	if isDown(err) {
		return refuse(http.StatusServiceUnavailable, err.Error())
	}
	return refuse(http.StatusBadGateway, err.Error())
}

// queue returns the queue that a request names, if the user may run a command on it.
func (req *request) queue(right string, more ...string) (keys queuewire.Keys, name string, err error) {
	query := req.r.URL.Query()
	if name, err = named(query.Get("ref"), query.Get("name")); err != nil {
		return keys, "", err
	}
	if req.source.Client == nil {
		return keys, "", refuse(http.StatusBadRequest, errNoCommands.Error())
	}
	if !req.user.May(append([]string{right, name}, more...)...) {
		return keys, "", refuse(http.StatusForbidden, "this user may not see "+quoted(name))
	}
	if keys, err = queuewire.KeysOf(req.source.Client, name); err != nil {
		return keys, "", refuse(http.StatusBadRequest, err.Error())
	}
	return keys, name, nil
}

// matches reports whether a message's id, group, or reason for failing contains q.
func matches(m *queuewire.MessageInfo, q string) bool {
	return q == "" || contains(m.ID, q) || contains(m.Group, q) || contains(m.LastReason, q)
}

func messageRow(m *queuewire.MessageInfo) map[string]any {
	row := map[string]any{
		"id": printable(m.ID), "idRef": ref(m.ID), "state": stateWord(m.State), "when": nil, "attempts": m.Attempts, "failures": m.Failures,
		"reason": printableLabel(m.LastReason), "group": printableLabel(m.Group), "bytes": len(m.Payload), "unreadable": m.Unreadable,
	}
	if !m.When.IsZero() {
		row["when"] = m.When.UnixMilli()
	}
	return row
}

func stateWord(s queuewire.State) string {
	if s == queuewire.StateRunning {
		return "active"
	}
	return string(s)
}

// message answers api/message: one message, with its payload and headers when payload=1 asks for them.
func (h *Handler) message(req *request) (any, error) {
	query := req.r.URL.Query()
	id, err := named(query.Get("idRef"), query.Get("id"))
	if err != nil {
		return nil, err
	}
	keys, name, err := req.queue("QUEUE.FIND", id)
	if err != nil {
		return nil, err
	}
	if err := queuewire.CheckID(id); err != nil {
		return nil, refuse(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(req.ctx, 2*answerTime)
	defer cancel()
	m, err := queuewire.Find(ctx, req.source.Client, keys, id)
	if err != nil {
		return nil, unavailable(err)
	}
	if m.State == queuewire.StateAbsent {
		return nil, refuse(http.StatusNotFound, "the queue "+quoted(name)+" has no message "+quoted(id))
	}
	row := messageRow(&m)
	row["name"], row["ref"], row["time"] = printable(name), ref(name), time.Now().UnixMilli()
	if query.Get("payload") == "1" {
		h.log.Info("the dashboard showed a payload", "user", req.user.Name(), "source", req.source.Name, "queue", name, "id", id)
		shown := m.Payload
		if m.State == queuewire.StateDone {
			shown = m.Result
		}
		row["truncated"] = len(shown) > maxShown
		shown = shown[:min(len(shown), maxShown)]
		row["headers"] = m.Headers
		if utf8.Valid(shown) {
			row["payload"] = string(shown)
		} else {
			row["payloadBase64"] = base64.StdEncoding.EncodeToString(shown)
		}
	}
	return row, nil
}
