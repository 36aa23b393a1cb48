package attack

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ask sends what may be several commands of memcached and wants exactly the bytes
// of an answer.
func (v *victim) ask(send, want string) error {
	c, err := v.conn(0)
	if err != nil {
		return err
	}
	began := time.Now()
	_, _ = c.WriteString(send) // Flush returns its error.
	if err := c.Flush(); err != nil {
		return fmt.Errorf("%q: %w", short(send, 100), err)
	}
	// The first line tells an error, which may be shorter than what is wanted.
	line, err := c.ReadString('\n')
	if err == nil && strings.HasPrefix(want, line) {
		rest := make([]byte, len(want)-len(line))
		_, err = io.ReadFull(c, rest)
		line += string(rest)
	}
	what, _, _ := strings.Cut(send, " ")
	v.timed(1, what, began)
	if err != nil || line != want {
		return fmt.Errorf("%q after %v: the answer is %q, want %q: %w", short(send, 100), time.Since(began).Round(time.Millisecond), short(line, 200), short(want, 200), cmp.Or(err, errNoReply))
	}
	return nil
}

func (v *victim) asks(send, want string) func() error {
	return func() error { return v.ask(send, want) }
}

func value(key, data string) string {
	return fmt.Sprintf("VALUE %s 7 %d\r\n%s\r\n", key, len(data), data)
}

func keepsValues(v *victim) error {
	key := "victim:" + v.name
	data := strings.Repeat(strconv.Itoa(v.n)+";", 1+v.n%300)
	size := strconv.Itoa(len(data))
	return v.first(
		v.asks("set "+key+" 7 0 "+size+"\r\n"+data+"\r\n", "STORED\r\n"),
		v.asks("get "+key+"\r\n", value(key, data)+"END\r\n"),
		v.asks("add "+key+" 7 0 1\r\nx\r\n", "NOT_STORED\r\n"),
		v.asks("append "+key+" 0 0 1\r\n!\r\n", "STORED\r\n"),
		v.asks("gat 0 "+key+"\r\n", value(key, data+"!")+"END\r\n"),
		v.asks("delete "+key+"\r\n", "DELETED\r\n"),
		v.asks("get "+key+"\r\n", "END\r\n"),
	)
}

func counts(v *victim) error {
	key := "victim:" + v.name
	if v.n == 1 {
		if err := v.ask("set "+key+" 0 0 1\r\n0\r\n", "STORED\r\n"); err != nil {
			return err
		}
	}
	n := strconv.Itoa(v.n)
	return v.first(
		v.asks("incr "+key+" 1\r\n", n+"\r\n"),
		v.asks("get "+key+"\r\n", fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(n), n)),
		v.asks("touch "+key+" 0\r\n", "TOUCHED\r\n"),
	)
}

// getsMany asks for values of all servers, without noreply's errors in between.
func getsMany(v *victim) error {
	var sets strings.Builder
	get, missing := "get", 0
	keys := map[string]bool{}
	for i := range 6 {
		key := fmt.Sprintf("victim:%s:%d", v.name, i)
		keys[value(key, strconv.Itoa(v.n))] = true
		fmt.Fprintf(&sets, "set %s 7 0 %d noreply\r\n%d\r\n", key, len(strconv.Itoa(v.n)), v.n)
		get += " " + key
		missing++
	}
	c, err := v.conn(0)
	if err != nil {
		return err
	}
	began := time.Now()
	_, _ = c.WriteString(sets.String() + get + "\r\n") // Flush returns its error.
	if err := c.Flush(); err != nil {
		return err
	}
	for {
		line, err := c.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s after %v: %w", get, time.Since(began).Round(time.Millisecond), err)
		}
		if line == "END\r\n" {
			break
		}
		data, err := c.ReadString('\n')
		if err != nil || !keys[line+data] {
			return fmt.Errorf("%s: the answer has %q: %w", get, line+data, cmp.Or(err, errNoReply))
		}
		delete(keys, line+data)
		missing--
	}
	v.timed(7, "get of many", began)
	if missing > 0 {
		return fmt.Errorf("%s: %d values are missing", get, missing)
	}
	return nil
}
