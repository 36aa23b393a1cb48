package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

// BenchmarkDecisions runs one caller's decisions in the process, by
// redoubt.Conn and by a session.
func BenchmarkDecisions(b *testing.B) {
	sc := script("ratelimit.gcra")
	var keys [1024]string
	for i := range keys {
		keys[i] = fmt.Sprintf("rd:{user:%d}:tat", i)
	}
	args := []string{"0", "0", "0", "1000000", "1", "0"}
	for name, natives := range map[string]map[string]engine.Native{"lua": nil, "native": native.All()} {
		e, err := engine.New(engine.Options{Natives: natives})
		if err != nil {
			b.Fatal(err)
		}
		b.Run("conn/"+name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if r := e.Do(b.Context(), redoubt.Cmd{Script: sc, Keys: keys[i&1023 : i&1023+1], Args: args}); r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		})
		b.Run("session/"+name, func(b *testing.B) {
			s := e.Session()
			line := [][]byte{[]byte("EVALSHA"), []byte(sc.Digest()), []byte("1"), nil}
			for _, a := range args {
				line = append(line, []byte(a))
			}
			out, _ := s.Do(nil, [][]byte{[]byte("SCRIPT"), []byte("LOAD"), []byte(sc.Source())})
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				line[3] = []byte(keys[i&1023])
				out, _ = s.Do(out[:0], line)
			}
			if out[0] != '*' {
				b.Fatalf("%q", out)
			}
		})
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPairs runs one caller's locks and unlocks, and reservations and
// sales, in the process by redoubt.Conn.
func BenchmarkPairs(b *testing.B) {
	item := stockwire.Keys{"rd:{item}:stock", "rd:{item}:due", "rd:{item}:over"}
	for _, pair := range []struct {
		name string
		cmds func(i int) (first, second redoubt.Cmd)
	}{
		{"lock", func(i int) (first, second redoubt.Cmd) {
			key, id := fmt.Sprintf("rd:{%d}:lock", i&1023), fmt.Sprintf("%032d", i)
			return lockwire.AcquireCmd([]string{key}, lockwire.Request{ID: id, TTL: time.Minute}), lockwire.ReleaseCmd([]string{key}, id, "", false)
		}},
		{"stock", func(i int) (first, second redoubt.Cmd) {
			id := fmt.Sprintf("%032d", i)
			return stockwire.ReserveCmd(item, id, 1, time.Minute), stockwire.CommitCmd(item, id)
		}},
	} {
		for name, natives := range map[string]map[string]engine.Native{"lua": nil, "native": native.All()} {
			b.Run(pair.name+"/"+name, func(b *testing.B) {
				e, err := engine.New(engine.Options{Natives: natives})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = e.Close() }()
				if r := e.Do(b.Context(), stockwire.SetCmd(item, stock.MaxUnits)); r.Err != nil {
					b.Fatal(r.Err)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					i++
					first, second := pair.cmds(i)
					for _, cmd := range []redoubt.Cmd{first, second} {
						if r := e.Do(b.Context(), cmd); r.Err != nil {
							b.Fatal(r.Err)
						}
					}
				}
			})
		}
	}
}
