package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/queue"
)

func TestTopic(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		q := l.queue(t, queue.Options{})
		topic := queue.NewTopic(q)
		ctx := t.Context()
		if _, n, err := topic.Put(ctx, "orders", queue.Request[string]{Value: "nobody"}); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		for _, s := range []string{"mail", "billing", "mail"} {
			must(t, topic.Subscribe(ctx, "orders", s))
		}
		if got, err := topic.Subscribers(ctx, "orders"); err != nil || !slices.Equal(got, []string{"billing", "mail"}) {
			t.Errorf("%q, %v", got, err)
		}
		work := func(subscriber string, want ...string) {
			t.Helper()
			var got []string
			_, err := q.Work(ctx, topic.QueueName("orders", subscriber), func(_ context.Context, d *queue.Delivery[string]) error {
				got = append(got, d.ID+" "+d.Value)
				return nil
			}, queue.RunOptions{})
			must(t, err)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", subscriber, got, want)
			}
		}
		put := func(id string, want int) {
			t.Helper()
			if _, n, err := topic.Put(ctx, "orders", queue.Request[string]{ID: id, Value: "v"}); n != want || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		put("1", 2)
		work("mail", "1 v")
		put("1", 2) // again, as after an error
		work("mail")
		work("billing", "1 v")
		must(t, topic.Unsubscribe(ctx, "orders", "mail"))
		put("2", 1)
		work("mail")
		work("billing", "2 v")
		// An ID as long as they may be; a longer one is named as such.
		long := strings.Repeat("x", queue.MaxID)
		put(long, 1)
		work("billing", long+" v")
		put(long, 1)
		work("billing")
		if _, _, err := topic.Put(ctx, "orders", queue.Request[string]{ID: long + "x"}); err == nil || err.Error() != "queue: id has 256 bytes; want 1 to 255" {
			t.Errorf("%v", err)
		}
		if err := topic.Subscribe(ctx, "orders", ""); err == nil {
			t.Error("an empty name is fine")
		}
		// The queue of "b/c" of the topic "a" would be that of "c" of "a/b".
		if err := topic.Subscribe(ctx, "orders", "b/c"); err == nil || !strings.Contains(err.Error(), `"b/c"`) {
			t.Errorf("b/c: %v", err)
		}
	})
}

func TestWork(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		q := l.queue(t, queue.Options{Keep: 1e9})
		_, err := q.PutMany(t.Context(), "q", []queue.Request[string]{{ID: "a", Value: "1"}, {ID: "b", Value: "2"}, {ID: "c", Value: "3"}})
		must(t, err)
		var order []string
		around := func(name string) queue.Middleware {
			return func(ctx context.Context, job *queue.Job, next func(context.Context) error) error {
				order = append(order, name+job.ID)
				return next(ctx)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		h := func(ctx context.Context, d *queue.Delivery[string]) error {
			order = append(order, d.Value)
			must(t, d.SetProgress(ctx, []byte("at "+d.Value)))
			found, err := q.MessageInfo(ctx, "q", d.ID)
			must(t, err)
			if found.State != queue.StateRunning || string(found.Progress) != "at "+d.Value {
				t.Errorf("%+v", found)
			}
			if err := d.SetProgress(ctx, make([]byte, queue.MaxProgress+1)); err == nil {
				t.Error("a note of 4097 bytes is taken")
			}
			d.SetResult([]byte("done " + d.Value))
			if d.ID == "b" {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		n, err := q.Work(ctx, "q", h, queue.RunOptions{Middleware: []queue.Middleware{around("x"), around("y")}})
		if n != 2 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		if want := []string{"xa", "ya", "1", "xb", "yb", "2"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
		found, err := q.MessageInfo(t.Context(), "q", "a")
		must(t, err)
		if found.State != queue.StateDone || string(found.Result) != "done 1" {
			t.Errorf("%+v", found)
		}
		n, err = q.Work(t.Context(), "q", func(context.Context, *queue.Delivery[string]) error { return nil }, queue.RunOptions{})
		if n > 2 || n < 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// A consumer that has lost a message learns it when it notes its progress.
func TestProgressOfALostMessage(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		q := l.queue(t, queue.Options{})
		_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: "m"})
		must(t, err)
		n, err := q.Work(t.Context(), "q", func(ctx context.Context, d *queue.Delivery[string]) error {
			if _, err := q.Cancel(ctx, "q", "m"); err != nil {
				return err
			}
			if err := d.SetProgress(ctx, []byte("half")); !errors.Is(err, queue.ErrLeaseLost) {
				t.Errorf("SetProgress returned %v", err)
			}
			return nil
		}, queue.RunOptions{})
		if n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

type letter struct{ text string }

func (l *letter) isMessage() {}

type message interface{ isMessage() }

func TestCodecs(t *testing.T) {
	proto := queue.Proto(
		func(m message) ([]byte, error) { return []byte(m.(*letter).text), nil },
		func(b []byte, m message) error { m.(*letter).text = string(b); return nil })
	b, err := proto.Encode(&letter{"x"})
	must(t, err)
	var back *letter
	must(t, proto.Decode(b, &back))
	if back.text != "x" {
		t.Errorf("%+v", back)
	}
	if _, err := proto.Encode("x"); err == nil {
		t.Error("a string is a message")
	}
	for _, into := range []any{new(string), new(*string)} {
		if err := proto.Decode(b, into); err == nil {
			t.Errorf("%T is a message", into)
		}
	}
	var text string
	var raw []byte
	must(t, queue.Bytes{}.Decode([]byte("a"), &text))
	must(t, queue.Bytes{}.Decode([]byte("a"), &raw))
	if _, err := (queue.Bytes{}).Encode(1); err == nil || text != "a" || string(raw) != "a" {
		t.Errorf("%q, %q, %v", text, raw, err)
	}
	if err := (queue.Bytes{}).Decode(nil, new(int)); err == nil {
		t.Error("an int is bytes")
	}
}
