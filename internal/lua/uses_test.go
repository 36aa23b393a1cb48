package lua

import (
	"fmt"
	"testing"
)

func TestUses(t *testing.T) {
	p, err := Compile("x", "local a = b\nfunction f()\n  return a .. tostring(c)\nend\nreturn redis.call('x')")
	if err != nil {
		t.Fatal(err)
	}
	want := "[{0 b 1} {1 f 2} {0 redis 5} {0 tostring 3} {0 c 3} {2  3}]"
	if got := fmt.Sprint(p.Uses()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
