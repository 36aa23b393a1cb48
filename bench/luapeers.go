package main

import (
	"context"
	"fmt"
	"strings"

	shopify "github.com/Shopify/go-lua"
	gopher "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// compileGopher compiles a script for gopher-lua. All runs use one state. Each has an
// environment of its own, through which it reads the globals. A stoppable run looks at a
// context before each instruction.
func compileGopher(ctx context.Context, source string, stoppable bool) (func() ([]int64, error), error) {
	chunk, err := parse.Parse(strings.NewReader(source), "user_script")
	if err != nil {
		return nil, err
	}
	proto, err := gopher.Compile(chunk, "user_script")
	if err != nil {
		return nil, err
	}
	l := gopher.NewState()
	if stoppable {
		l.SetContext(ctx)
	}
	var args []string
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]gopher.LGFunction{"call": func(l *gopher.LState) int {
		args = args[:0]
		for i := range l.GetTop() {
			args = append(args, l.CheckString(i+1))
		}
		switch args[0] {
		case "GET":
			l.Push(gopher.LString(stubGet))
		case "SET":
			status := l.NewTable()
			status.RawSetString("ok", gopher.LString("OK"))
			l.Push(status)
		default:
			l.Push(gopher.LNumber(1))
		}
		return 1
	}}))
	globals := l.NewTable()
	globals.RawSetString("__index", l.G.Global)
	var reply []int64
	return func() ([]int64, error) {
		env := l.NewTable()
		env.Metatable = globals
		env.RawSetString("KEYS", gopherList(l, luaKeys))
		env.RawSetString("ARGV", gopherList(l, luaArgs))
		f := l.NewFunctionFromProto(proto)
		f.Env = env
		l.Push(f)
		if err := l.PCall(0, 1, nil); err != nil {
			return nil, err
		}
		reply = reply[:0]
		switch v := l.Get(-1).(type) {
		case gopher.LNumber:
			reply = append(reply, int64(v))
		case *gopher.LTable:
			for i := 1; ; i++ {
				n, ok := v.RawGetInt(i).(gopher.LNumber)
				if !ok {
					break
				}
				reply = append(reply, int64(n))
			}
		}
		l.Pop(1)
		return reply, nil
	}, nil
}

func gopherList(l *gopher.LState, all []string) *gopher.LTable {
	t := l.CreateTable(len(all), 0)
	for _, s := range all {
		t.Append(gopher.LString(s))
	}
	return t
}

// hookSteps is the number of instructions between two checks whether go-lua has to stop.
// internal/lua checks as often.
const hookSteps = 2000

// compileShopify compiles a script for go-lua. All runs use one state. Each has an
// environment of its own, through which it reads the globals. A stoppable run looks at a
// context in a hook.
func compileShopify(ctx context.Context, source string, stoppable bool) (func() ([]int64, error), error) {
	l := shopify.NewState()
	shopify.OpenLibraries(l)
	if stoppable {
		shopify.SetDebugHook(l, func(l *shopify.State, _ shopify.Debug) {
			if err := ctx.Err(); err != nil {
				shopify.Errorf(l, "%v", err)
			}
		}, shopify.MaskCount, hookSteps)
	}
	var args []string
	l.NewTable()
	l.PushGoFunction(func(l *shopify.State) int {
		args = args[:0]
		for i := range l.Top() {
			args = append(args, shopify.CheckString(l, i+1))
		}
		switch args[0] {
		case "GET":
			l.PushString(stubGet)
		case "SET":
			l.CreateTable(0, 1)
			l.PushString("OK")
			l.SetField(-2, "ok")
		default:
			l.PushInteger(1)
		}
		return 1
	})
	l.SetField(-2, "call")
	l.SetGlobal("redis")

	const meta, script = 1, 2 // places on the stack
	l.NewTable()
	l.PushGlobalTable()
	l.SetField(meta, "__index")
	if err := shopify.LoadBuffer(l, source, "user_script", "t"); err != nil {
		return nil, err
	}
	var reply []int64
	return func() ([]int64, error) {
		defer l.SetTop(script)
		l.CreateTable(0, 2)
		shopifyList(l, "KEYS", luaKeys)
		shopifyList(l, "ARGV", luaArgs)
		l.PushValue(meta)
		l.SetMetaTable(-2)
		if name, ok := shopify.SetUpValue(l, script, 1); !ok || name != "_ENV" {
			return nil, fmt.Errorf("the script's first upvalue is %q", name)
		}
		l.PushValue(script)
		if err := l.ProtectedCall(0, 1, 0); err != nil {
			return nil, err
		}
		reply = reply[:0]
		if n, ok := l.ToNumber(-1); ok {
			return append(reply, int64(n)), nil
		}
		for i := 1; ; i++ {
			l.RawGetInt(-1, i)
			n, ok := l.ToNumber(-1)
			if !ok {
				return reply, nil
			}
			reply = append(reply, int64(n))
			l.Pop(1)
		}
	}, nil
}

// shopifyList sets a field of the table on the top of the stack.
func shopifyList(l *shopify.State, name string, all []string) {
	l.CreateTable(len(all), 0)
	for i, s := range all {
		l.PushString(s)
		l.RawSetInt(-2, i+1)
	}
	l.SetField(-2, name)
}
