package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
)

// Promise: People who may only look can change nothing: the server refuses every action.
func TestReadOnly(t *testing.T) {
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) { s.Users = dashboard.OneUser("default", "", false) })
	locks, err := lock.New(p.client, lock.Options{})
	must(t, err)
	lease, err := locks.Acquire(t.Context(), "orders")
	must(t, err)
	if s := p.snap(""); s.User.CanWrite {
		t.Error("the snapshot says that the user may write")
	}
	for _, action := range []string{
		"lock.release", "semaphore.release", "queue.requeue", "queue.requeueAll", "queue.cancel", "queue.delete", "queue.deleteAll",
		"queue.pause", "queue.resume", "queue.drain",
	} {
		status, answer := p.act(map[string]any{"action": action, "name": "orders", "id": "1", "token": fmt.Sprint(lease.Token())})
		if status != http.StatusForbidden {
			t.Errorf("%s: %d %v", action, status, answer)
		}
	}
	if i, err := locks.Info(t.Context(), "orders"); err != nil || len(i.Holders) != 1 {
		t.Errorf("the lock is then %+v, %v", i, err)
	}
}

// Promise: The dashboard takes a lock away by its fencing token only, so that no later holder loses it.
func TestReleaseByToken(t *testing.T) {
	p := open(t, nil)
	locks, err := lock.New(p.client, lock.Options{})
	must(t, err)
	lease, err := locks.Acquire(t.Context(), "orders")
	must(t, err)
	order := map[string]any{"source": "main", "action": "lock.release", "name": "orders", "token": fmt.Sprint(lease.Token() - 1)}
	if status, answer := p.act(order); status != 200 || answer["done"] != 0.0 || answer["message"] == nil {
		t.Errorf("with an older token: %d %v", status, answer)
	}
	if i, err := locks.Info(t.Context(), "orders"); err != nil || len(i.Holders) != 1 {
		t.Errorf("the lock is then %+v, %v", i, err)
	}
	order["token"] = fmt.Sprint(lease.Token())
	if status, answer := p.act(order); status != 200 || answer["done"] != 1.0 || answer["ok"] != true {
		t.Errorf("with the token: %d %v", status, answer)
	}
	if i, err := locks.Info(t.Context(), "orders"); err != nil || len(i.Holders) != 0 {
		t.Errorf("the lock is then %+v, %v", i, err)
	}
	for _, word := range []string{"lock.release", "orders", "user=default", "source=main", "done=1"} {
		if !strings.Contains(p.log.String(), word) {
			t.Errorf("the log lacks %q: %s", word, p.log.String())
		}
	}

	semaphores, err := lock.NewSemaphore(p.client, lock.SemaphoreOptions{})
	must(t, err)
	permit, err := semaphores.Acquire(t.Context(), "geo", 2)
	must(t, err)
	if status, answer := p.act(map[string]any{"action": "semaphore.release", "name": "geo", "token": fmt.Sprint(permit.Token())}); status != 200 || answer["done"] != 1.0 {
		t.Errorf("a permit: %d %v", status, answer)
	}
}

// dead puts n messages that die at once.
func dead(t *testing.T, jobs *queue.Queue[string], name string, n int) {
	t.Helper()
	requests := make([]queue.Request[string], n)
	for i := range requests {
		requests[i] = queue.Request[string]{Value: "payload " + fmt.Sprint(i), ID: fmt.Sprintf("m%05d", i)}
	}
	for at := 0; at < n; at += queue.MaxBatch {
		_, err := jobs.PutMany(t.Context(), name, requests[at:min(n, at+queue.MaxBatch)])
		must(t, err)
	}
	_, err := jobs.Work(t.Context(), name, func(context.Context, *queue.Delivery[string]) error {
		return queue.Dead(errors.New("the card is refused"))
	}, queue.RunOptions{Concurrency: 100})
	must(t, err)
	if i, err := jobs.Info(t.Context(), name); err != nil || i.Dead != n {
		t.Fatalf("the queue is %+v, %v; want %d dead", i, err, n)
	}
}

func TestQueueActions(t *testing.T) {
	p := open(t, nil)
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	const n = 20
	dead(t, jobs, "mail", n)

	var list struct {
		All  int
		Next string
		Rows []map[string]any
	}
	p.get("/api/queue?name=mail&state=dead", &list)
	if list.All != n || len(list.Rows) != n || list.Next != "" || list.Rows[0]["reason"] != "dead: the card is refused" || list.Rows[0]["bytes"].(float64) == 0 {
		t.Errorf("the dead messages are %+v", list)
	}
	if _, there := list.Rows[0]["payload"]; there {
		t.Error("a list has payloads")
	}
	p.get("/api/queue?name=mail&state=dead&q=M00007", &list)
	if len(list.Rows) != 1 || list.Rows[0]["id"] != "m00007" {
		t.Errorf("the search found %v", list.Rows)
	}
	var message map[string]any
	p.get("/api/message?name=mail&id=m00007", &message)
	if message["payload"] != nil || message["state"] != "dead" {
		t.Errorf("the message is %v", message)
	}
	p.get("/api/message?name=mail&id=m00007&payload=1", &message)
	if message["payload"] != `"payload 7"` || !strings.Contains(p.log.String(), "showed a payload") {
		t.Errorf("with its payload the message is %v, and the log %s", message, p.log.String())
	}
	for path, want := range map[string]int{
		"/api/queue?name=mail&state=none": 400, "/api/queue?state=dead": 400, "/api/queue?name=mail&state=dead&page=x": 400, "/api/message?name=mail&id=none": 404,
		"/api/message?name=mail": 400, "/api/queue?name=}&state=dead": 400, "/api/queue?ref=*&state=dead": 400,
	} {
		if resp, text := p.do(http.MethodGet, path, "", nil); resp.StatusCode != want {
			t.Errorf("%s: %d %s; want %d", path, resp.StatusCode, text, want)
		}
	}

	act := func(action, id string, want float64) {
		t.Helper()
		order := map[string]any{"action": action, "name": "mail"}
		if id != "" {
			order["id"] = id
		}
		if status, answer := p.act(order); status != 200 || answer["done"] != want || answer["more"] != false {
			t.Errorf("%s %s: %d %v; want %v done", action, id, status, answer, want)
		}
	}
	info := func(ready, dead int, paused bool) {
		t.Helper()
		if i, err := jobs.Info(t.Context(), "mail"); err != nil || i.Ready != ready || i.Dead != dead || i.Paused != paused {
			t.Errorf("the queue is %+v, %v; want %d ready, %d dead, paused %t", i, err, ready, dead, paused)
		}
	}
	act("queue.pause", "", 1)
	act("queue.requeue", "m00003", 1)
	act("queue.requeue", "m00003", 0)
	info(1, n-1, true)
	act("queue.delete", "m00004", 1)
	act("queue.cancel", "m00003", 1)
	act("queue.cancel", "m00003", 0)
	info(0, n-2, true)
	act("queue.resume", "", 1)
	act("queue.requeueAll", "", n-2)
	info(n-2, 0, false)
	act("queue.drain", "", n-2)
	info(0, 0, false)
	act("queue.deleteAll", "", 0)
}

// A long action answers in steps; a step goes on where the step before ended. It ends though messages
// die meanwhile.
func TestActionInSteps(t *testing.T) {
	p := open(t, nil)
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	dead(t, jobs, "mail", 10)
	status, answer := p.act(map[string]any{"action": "queue.requeueAll", "name": "mail", "step": "4"})
	if status != 200 || answer["done"] != 4.0 || answer["more"] != false {
		t.Errorf("the last 4: %d %v", status, answer)
	}
	if i, err := jobs.Info(t.Context(), "mail"); err != nil || i.Ready != 4 || i.Dead != 6 {
		t.Errorf("the queue is %+v, %v", i, err)
	}
	dashboard.SetStepTime(-1)
	defer dashboard.SetStepTime(300 * time.Millisecond)
	_, err = jobs.PutRequest(t.Context(), "big", queue.Request[string]{Value: "x", Delay: time.Hour})
	must(t, err)
	requests := make([]queue.Request[string], 1000)
	for i := range requests {
		requests[i].Value = "x"
	}
	for range 2 {
		_, err = jobs.PutMany(t.Context(), "big", requests)
		must(t, err)
	}
	sum, step, steps := 0.0, "", 0
	for more := true; more && steps < 100; steps++ {
		_, answer := p.act(map[string]any{"action": "queue.drain", "name": "big", "step": step})
		more, _ = answer["more"].(bool)
		step, _ = answer["step"].(string)
		sum += answer["done"].(float64)
	}
	if sum != 2001 || steps < 3 || steps == 100 {
		t.Errorf("drained %v in %d steps", sum, steps)
	}
	if status, answer := p.act(map[string]any{"action": "queue.drain", "name": "big", "step": "-1"}); status != 400 {
		t.Errorf("a wrong step: %d %v", status, answer)
	}
}
