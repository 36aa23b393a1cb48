package matrix

import (
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A taken is a message that QUEUE.TAKE gave.
type taken struct {
	receipt, id, payload string
	attempt              int64
}

// take sends QUEUE.TAKE for one message.
func (w wire) take(t *testing.T, name, leaseMS, more string) (m taken, err error) {
	t.Helper()
	v, err := w.do(t, "QUEUE.TAKE "+name+" 1 "+leaseMS+" "+more)
	if err != nil {
		return m, err
	}
	list, _ := v.([]any)
	if len(list) != 1 {
		return m, fmt.Errorf("%d messages were taken: %v", len(list), v)
	}
	f, _ := list[0].([]any)
	if len(f) != 4 {
		return m, fmt.Errorf("a message is %v", list[0])
	}
	return taken{receipt: f[0].(string), id: f[1].(string), attempt: f[2].(int64), payload: f[3].(string)}, nil
}

func (p *pair) queueBlock(t *testing.T, name string) {
	for i := range 5 {
		done := promptly(t, func() error {
			m, err := p.b.take(t, name, "120000", "BLOCK 0")
			if err == nil && m.payload != fmt.Sprint(i) {
				err = fmt.Errorf("got %q, want %d", m.payload, i)
			}
			if err == nil {
				p.b.want(t, "QUEUE.ACK "+name+" "+m.receipt, "1")
			}
			return err
		})
		for range 20 { // by then the consumer waits, most of the time
			p.a.want(t, "PING", "PONG")
		}
		_, err := p.a.do(t, fmt.Sprintf("QUEUE.PUT %s %d", name, i))
		must(t, err)
		must(t, <-done)
	}
}

func (p *pair) queueDelay(t *testing.T, name string) {
	const delay = 300 * time.Millisecond
	began := time.Now()
	p.a.want(t, "QUEUE.PUT "+name+" later ID later DELAY 300", "later")
	p.a.want(t, "QUEUE.PUT "+name+" now ID now", "now")
	for range 2 {
		m, err := p.b.take(t, name, "120000", "BLOCK 0")
		must(t, err)
		if took := time.Since(began); m.id == "later" && took < delay {
			t.Errorf("the message was there after %v, want it after %v", took, delay)
		}
	}
}

func (p *pair) queueCrash(t *testing.T, name string) {
	p.a.want(t, "QUEUE.PUT "+name+" work ID 1", "1")
	first, err := p.a.take(t, name, "300", "")
	must(t, err)
	m, err := p.b.take(t, name, "120000", "BLOCK 0")
	must(t, err)
	if m.id != "1" || m.attempt != 2 {
		t.Errorf("got %+v", m)
	}
	p.a.want(t, "QUEUE.ACK "+name+" "+first.receipt, "0")
	p.b.want(t, "QUEUE.ACK "+name+" "+m.receipt, "1")
}

func (p *pair) stockSold(t *testing.T, name string) {
	p.a.want(t, "STOCK.SET "+name+" 3", "3")
	p.a.want(t, "STOCK.RESERVE "+name+" 2 120000 ID x", "[x]")
	p.b.want(t, "STOCK.RESERVE "+name+" 2 120000 ID y", "<nil>")
	p.b.want(t, "STOCK.COMMIT "+name+" x", "1")
	p.a.want(t, "STOCK.COMMIT "+name+" x", "1")
	p.b.want(t, "STOCK.RESERVE "+name+" 1 120000 ID z", "[z]")
	p.a.want(t, "STOCK.CANCEL "+name+" z", "1")
	for field, want := range map[string]int64{"sold": 2, "available": 1, "reserved": 0, "total": 3} {
		if got := p.b.field(t, "STOCK.INFO "+name, field); got != want {
			t.Errorf("%s is %v, want %d", field, got, want)
		}
	}
}

func (p *pair) stockRunsOut(t *testing.T, name string) {
	p.a.want(t, "STOCK.SET "+name+" 1", "1")
	p.a.want(t, "STOCK.RESERVE "+name+" 1 200 ID x", "[x]")
	await.Soon(t, "the reservation runs out", func() bool {
		v, err := p.b.do(t, "STOCK.RESERVE "+name+" 1 120000")
		must(t, err)
		return v != nil
	})
	p.a.want(t, "STOCK.CANCEL "+name+" x", "0")
}

func (p *pair) bloomFilter(t *testing.T, name string) {
	p.a.want(t, "BF.RESERVE "+name+" 0.001 1000", "OK")
	add, look := "BF.MADD "+name, "BF.MEXISTS "+name
	for i := range 100 {
		add += fmt.Sprint(" in", i)
		look += fmt.Sprint(" in", i)
	}
	_, err := p.a.do(t, add)
	must(t, err)
	v, err := p.b.do(t, look)
	must(t, err)
	answers, _ := v.([]any)
	for i, a := range answers {
		if a != int64(1) && a != true { // RESP3 has booleans
			t.Errorf("item %d: %v", i, a)
		}
	}
	if len(answers) != 100 {
		t.Errorf("%d answers", len(answers))
	}
}

func (p *pair) geoIndex(t *testing.T, name string) {
	p.a.want(t, "GEOIDX.ADD "+name+" 13.3777 52.5163 gate 13.4010 52.5190 cathedral 151.2153 -33.8568 opera", "3")
	near := "GEOIDX.NEAR " + name + " FROMMEMBER %s BYRADIUS %d KM"
	p.b.want(t, fmt.Sprintf(near, "gate", 5), "[gate cathedral]")
	p.a.want(t, "GEOIDX.ADD "+name+" XX 151.2 -33.8 cathedral", "1")
	p.b.want(t, fmt.Sprintf(near, "gate", 5), "[gate]")
	p.b.want(t, fmt.Sprintf(near, "opera", 10), "[opera cathedral]")
}

func (p *pair) ttlHash(t *testing.T, name string) {
	p.a.want(t, "TTLHASH.SET "+name+" soon 1 200", "1")
	p.a.want(t, "TTLHASH.SET "+name+" late 2 120000", "1")
	p.a.want(t, "TTLHASH.SET "+name+" ever 3 -1", "1")
	await.Until(t, prompt, "a field expires", func() bool {
		v, err := p.b.do(t, "TTLHASH.GET "+name+" soon")
		must(t, err)
		return v == nil
	})
	p.b.want(t, "TTLHASH.MGET "+name+" soon late ever", "[<nil> 2 3]")
	p.b.want(t, "TTLHASH.SET "+name+" soon 4 120000 NX", "1")
}

func (p *pair) scanKeys(t *testing.T, name string) {
	for i := range 100 {
		p.a.want(t, fmt.Sprintf("SET %s:%d v", name, i), "OK")
	}
	seen := map[string]bool{}
	for cursor := "0"; ; {
		v, err := p.b.do(t, "SCAN "+cursor+" MATCH "+name+":* COUNT 50")
		must(t, err)
		reply, _ := v.([]any)
		if len(reply) != 2 {
			t.Fatalf("SCAN: %v", v)
		}
		for _, key := range reply[1].([]any) {
			seen[key.(string)] = true
		}
		if cursor = reply[0].(string); cursor == "0" {
			break
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d keys were found, want 100", len(seen))
	}
}
