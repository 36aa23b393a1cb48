package native_test

import (
	"fmt"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/engine/native"
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
