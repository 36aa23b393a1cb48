package lua_test

import (
	"fmt"

	"github.com/redoubt-go/redoubt/internal/lua"
)

// store is a Host with one command.
type store map[string]int64

func (s store) Call(args [][]byte, r *lua.Reply) {
	if string(args[0]) != "INCR" || len(args) != 2 {
		r.Error("ERR Unknown Redis command called from script")
		return
	}
	s[string(args[1])]++
	r.Int(s[string(args[1])])
}

// lines is a Writer that prints; it embeds Writer for what it does not need.
type lines struct{ lua.Writer }

func (lines) Array(n int)         { fmt.Println("array of", n) }
func (lines) Int(n int64)         { fmt.Println("integer", n) }
func (lines) BulkString(s string) { fmt.Println("string", s) }
func (lines) Error(s string)      { fmt.Println("error", s) }

func Example() {
	script, err := lua.Compile("user_script", `
		local n = redis.call('INCR', KEYS[1])
		return {n, ARGV[1] .. ':' .. n, cjson.encode({count = n})}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	runtime, err := lua.NewRuntime(lua.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = runtime.Run(script, lua.Invocation{Host: store{}, Keys: []string{"hits"}, Args: []string{"page"}}, lines{})
	fmt.Println(err)
	// Output:
	// array of 3
	// integer 1
	// string page:1
	// string {"count":1}
	// <nil>
}
