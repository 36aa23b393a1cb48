// Package lua runs Redis scripts inside a Go process: Lua 5.1 as Redis 7.0
// has it, with redis.call, KEYS and ARGV, cjson, cmsgpack, struct and bit.
//
// A script is compiled once and run any number of times, by many goroutines:
//
//	script, err := lua.Compile("user_script", source)
//	runtime, err := lua.NewRuntime(lua.Options{})
//	err = runtime.Run(script, lua.Invocation{Host: host, Keys: keys, Args: args}, reply)
//
// The package knows no database. A [Host] runs the commands of redis.call and
// writes their replies into a [Reply]; a [Writer] takes the script's own
// reply. A Reply is a Writer, so a host's commands need only one way to reply.
//
// # The same as Redis
//
// Replies equal the replies of redis-server 7.0.15, byte for byte. Numbers print
// with %.14g and go to commands with %.17g. Errors have Redis' texts and positions.
// Tables grow, hash and iterate as C Lua's do, so the order of pairs and of
// cjson.encode is the same. The corpus in testdata holds this for several
// hundred scripts, and random programs are compared with a live server.
//
// Differences, on purpose: string.dump refuses; cjson's settings end with the
// run, where Redis keeps them for all scripts; math.random begins at a random
// place in every run; error objects that end redis-server 7.0 are errors here;
// addresses in tostring are numbers of our own. Results of exp, log, pow and
// the trigonometric functions may differ from glibc's in the last of 17 digits.
//
// # Limits
//
// No script can end or hold up the process. Memory, steps, time and nesting
// are bounded, see [Options] and [Invocation]; an [Interrupt] stops a run from
// outside, within a few milliseconds of the processor's time. Of these, pcall
// catches only "not enough memory". A run sees nothing of an earlier one:
// globals and libraries are read only, and states are reset.
//
// Natives count their work by the bytes and slots that they read, and check in between
// whether the run may go on. Everything that a run keeps alive counts: compiled code,
// stacks, and the buffers of natives. A part of a long string is a copy, so that it does
// not keep the whole string alive. While a value grows, a run may take twice its limit.
//
// # Design
//
// As in PUC-Rio's implementation, a one-pass compiler emits code for a
// register machine (lex.go, parse*.go, code*.go, opcode.go), which vm.go runs;
// calls between Lua functions, and coroutines, need no Go stack or goroutine.
// Values are 24 bytes without unsafe (value.go says why). Errors travel as
// panics of one private type, caught where pcall, a coroutine or Run begin.
package lua
