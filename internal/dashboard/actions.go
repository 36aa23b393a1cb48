package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/lock"
)

const (
	// actionTime is how long one step of an action may take.
	actionTime = 10 * time.Second
	// maxAction is the size of the JSON of an action.
	maxAction = 8 << 10
)

// stepTime is when an action in steps answers, so that the page can show its progress. Tests change it.
var stepTime = 300 * time.Millisecond

// An order is what a browser wants done.
type order struct {
	Source string `json:"source"`
	Action string `json:"action"`
	Name   string `json:"name"`
	Ref    string `json:"ref"`
	ID     string `json:"id"`
	IDRef  string `json:"idRef"`
	Token  string `json:"token"`
	Step   string `json:"step"` // of the answer before; empty at first
}

// An outcome says what came of an order. More: the browser repeats it with Step.
type outcome struct {
	OK      bool   `json:"ok"`
	Done    int    `json:"done"`
	More    bool   `json:"more"`
	Step    string `json:"step,omitempty"`
	Message string `json:"message,omitempty"`
}

// An action is one kind of action.
type action struct {
	right func(o *order) []string // the command that the user must be allowed to run
	token bool                    // it needs a token
	id    bool                    // it needs the ID of a message
	run   func(ctx context.Context, c *redoubt.Client, o *order) (outcome, error)
}

var actions = map[string]action{
	"lock.release": {
		right: func(o *order) []string { return []string{"LOCK.FORCE", o.Name, o.Token} }, token: true,
		run: func(ctx context.Context, c *redoubt.Client, o *order) (outcome, error) {
			m, err := lock.New(c, lock.Options{})
			if err != nil {
				return outcome{}, err
			}
			return released(m.ForceRelease(ctx, o.Name, o.token()))
		},
	},
	"semaphore.release": {
		right: func(o *order) []string { return []string{"SEM.FORCE", o.Name, o.Token} }, token: true,
		run: func(ctx context.Context, c *redoubt.Client, o *order) (outcome, error) {
			s, err := lock.NewSemaphore(c, lock.SemaphoreOptions{})
			if err != nil {
				return outcome{}, err
			}
			return released(s.ForceRelease(ctx, o.Name, o.token()))
		},
	},
	"queue.requeue": {
		right: func(o *order) []string { return []string{"QUEUE.REQUEUE", o.Name, o.ID} }, id: true,
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error) {
			dead, err := queuewire.Requeue(ctx, c, keys, o.ID)
			return counted(count(dead, true), "the message is not dead any more"), err
		}),
	},
	"queue.requeueAll": {
		right: func(o *order) []string { return []string{"QUEUE.REQUEUE", o.Name, "*"} },
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error) {
			return eachDead(ctx, c, keys, o.Step, func(ids []string) (int, error) {
				dead, err := queuewire.Requeue(ctx, c, keys, ids...)
				return count(dead, true), err
			})
		}),
	},
	"queue.cancel": {
		right: func(o *order) []string { return []string{"QUEUE.CANCEL", o.Name, o.ID} }, id: true,
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error) {
			was, err := queuewire.Cancel(ctx, c, keys, o.ID)
			return counted(count(was, queuewire.StatePending)+count(was, queuewire.StateRunning), "the queue has no such message any more, or it is dead"), err
		}),
	},
	"queue.delete": {
		right: func(o *order) []string { return []string{"QUEUE.DELETE", o.Name, o.ID} }, id: true,
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error) {
			was, err := queuewire.Delete(ctx, c, keys, o.ID)
			return counted(count(was, queuewire.StateDead), "the message is not dead any more"), err
		}),
	},
	"queue.deleteAll": {
		right: func(o *order) []string { return []string{"QUEUE.DELETE", o.Name, "*"} },
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error) {
			return eachDead(ctx, c, keys, o.Step, func(ids []string) (int, error) {
				was, err := queuewire.Delete(ctx, c, keys, ids...)
				return count(was, queuewire.StateDead), err
			})
		}),
	},
	"queue.pause": {
		right: func(o *order) []string { return []string{"QUEUE.PAUSE", o.Name} },
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, _ *order) (outcome, error) {
			return outcome{Done: 1}, c.Do(ctx, queuewire.PauseCmd(keys)).Err
		}),
	},
	"queue.resume": {
		right: func(o *order) []string { return []string{"QUEUE.RESUME", o.Name} },
		run: onQueue(func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, _ *order) (outcome, error) {
			return outcome{Done: 1}, c.Do(ctx, queuewire.ResumeCmd(keys)).Err
		}),
	},
	"queue.drain": {
		right: func(o *order) []string { return []string{"QUEUE.CANCEL", o.Name, "*"} },
		run:   onQueue(drain),
	},
}

// action answers api/action: it does what a browser orders, if the user has the right.
func (h *Handler) action(req *request) (any, error) {
	o, err := readOrder(req.r)
	if err != nil {
		return nil, err
	}
	if o.Source != "" {
		at := slices.IndexFunc(req.sources, func(s *source) bool { return s.Name == o.Source })
		if at < 0 {
			return nil, refuse(http.StatusNotFound, "there is no source "+quoted(o.Source)+" that this user may look at")
		}
		req.source, req.user = req.sources[at], req.users[at]
	}
	a, ok := actions[o.Action]
	if !ok {
		return nil, refuse(http.StatusBadRequest, "there is no action "+quoted(o.Action))
	}
	if o.Name, err = named(o.Ref, o.Name); err != nil {
		return nil, err
	}
	if a.token && o.token() < 1 {
		return nil, refuse(http.StatusBadRequest, "token is "+quoted(o.Token)+"; want that of the holder")
	}
	if a.id {
		if o.ID, err = named(o.IDRef, o.ID); err != nil {
			return nil, err
		}
		if err := queuewire.CheckID(o.ID); err != nil {
			return nil, refuse(http.StatusBadRequest, err.Error())
		}
	}
	if req.source.Client == nil {
		return nil, refuse(http.StatusBadRequest, errNoCommands.Error())
	}
	log := h.log.With("user", req.user.Name(), "action", o.Action, "source", req.source.Name, "name", o.Name, "id", o.ID, "token", o.Token, "client", req.r.RemoteAddr)
	if !req.user.Writes() || !req.user.May(a.right(o)...) {
		log.Warn("the dashboard refused an action")
		return nil, refuse(http.StatusForbidden, "this user may not do this")
	}
	ctx, cancel := context.WithTimeout(req.ctx, actionTime)
	defer cancel()
	d, err := a.run(ctx, req.source.Client, o)
	if _, wrong := errors.AsType[*refusal](err); wrong || errors.Is(err, redoubt.ErrInvalidName) {
		return nil, refuse(http.StatusBadRequest, err.Error())
	}
	if err != nil {
		log.Error("an action of the dashboard failed", "done", d.Done, "error", err)
		return nil, unavailable(err)
	}
	log.Info("an action of the dashboard", "done", d.Done, "more", d.More)
	req.source.panels.expire()
	d.OK = true
	return d, nil
}

// readOrder reads the JSON of an action. A page of another site can't send this media type without asking.
func readOrder(r *http.Request) (*order, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "an action is application/json")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAction+1))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the action can't be read: "+err.Error())
	}
	if len(body) > maxAction {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the action has more than "+strconv.Itoa(maxAction)+" bytes")
	}
	o := &order{}
	in := json.NewDecoder(strings.NewReader(string(body)))
	in.DisallowUnknownFields()
	if err := in.Decode(o); err != nil {
		return nil, refuse(http.StatusBadRequest, "the action is no JSON of an action: "+err.Error())
	}
	return o, nil
}

// token returns the fencing token, or 0 if there is none.
func (o *order) token() int64 {
	n, err := strconv.ParseInt(o.Token, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func released(ok bool, err error) (outcome, error) {
	n := 0
	if ok {
		n = 1
	}
	return counted(n, "nobody holds it with this token any more"), err
}

// counted is the result of an action on one thing, with what to say if there was nothing to do.
func counted(n int, nothing string) outcome {
	if n > 0 {
		nothing = ""
	}
	return outcome{Done: n, Message: nothing}
}

func count[V comparable](list []V, want V) (n int) {
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

func onQueue(run func(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (outcome, error)) func(ctx context.Context, c *redoubt.Client, o *order) (outcome, error) {
	return func(ctx context.Context, c *redoubt.Client, o *order) (outcome, error) {
		keys, err := queuewire.KeysOf(c, o.Name)
		if err != nil {
			return outcome{}, refuse(http.StatusBadRequest, err.Error())
		}
		return run(ctx, c, keys, o)
	}
}

// eachDead calls change, which takes messages out of the dead ones, for about stepTime. The step of the
// answer is how many of the messages that were dead at the beginning are left: messages that die meanwhile must not
// make it go on for ever.
func eachDead(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, step string, change func(ids []string) (int, error)) (d outcome, err error) {
	left := -1
	if step != "" {
		if left, err = strconv.Atoi(step); err != nil || left < 0 {
			return d, refuse(http.StatusBadRequest, "step is "+quoted(step)+"; want that of the answer before")
		}
	}
	for began := time.Now(); left != 0; {
		cmd, err := queuewire.MessagesCmd(keys, queuewire.StateDead, 0, queuewire.MaxSettle)
		if err != nil {
			return d, err
		}
		list, dead, err := queuewire.ReadMessages(c.Do(ctx, cmd), queuewire.StateDead)
		if err != nil || len(list) == 0 {
			return d, err
		}
		if left < 0 {
			left = dead
		}
		ids := make([]string, 0, len(list))
		for i := range list[:min(len(list), left)] {
			ids = append(ids, list[i].ID)
		}
		n, err := change(ids)
		d.Done += n
		if err != nil {
			return d, err
		}
		left -= len(ids)
		if d.More = left > 0; d.More && time.Since(began) > stepTime {
			d.Step = strconv.Itoa(left)
			return d, nil
		}
	}
	return d, nil
}

// drain removes pending messages for about stepTime. The step of the answer is how many it skips.
func drain(ctx context.Context, c *redoubt.Client, keys queuewire.Keys, o *order) (d outcome, err error) {
	skip := 0
	if o.Step != "" {
		if skip, err = strconv.Atoi(o.Step); err != nil || skip < 0 {
			return d, refuse(http.StatusBadRequest, "step is "+quoted(o.Step)+"; want that of the answer before")
		}
	}
	for began := time.Now(); ; {
		var n int
		if n, skip, d.More, err = queuewire.ReadDrain(c.Do(ctx, queuewire.DrainCmd(keys, queuewire.MaxSettle, skip))); err != nil {
			return d, err
		}
		d.Done += n
		if !d.More || time.Since(began) > stepTime {
			if d.More {
				d.Step = strconv.Itoa(skip)
			}
			return d, nil
		}
	}
}
