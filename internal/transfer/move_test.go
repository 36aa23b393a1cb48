package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Every kind of key of a redis-server moves into an engine and back unchanged: by an RDB file of Redis, from the
// live server, by an RDB file of ours that Redis loads, and by RESTORE.
func TestRoundTrip(t *testing.T) {
	redistest.Needs(t, 7, 0, "PEXPIRETIME, by which deadlines are compared,")
	dir := t.TempDir()
	redis, _ := startRedis(t, "--dir", dir)
	n := fill(redis)
	want := redis.contents()
	redis.must("SAVE")

	fromFile := startEngine(t)
	mustMove(t, rdbFile(t, filepath.Join(dir, "dump.rdb")), fromFile.server(AnyDatabase), Options{}, n)
	same(t, "by an RDB file", want, fromFile.contents())

	live := startEngine(t)
	mustMove(t, redis.server(AnyDatabase), live.server(AnyDatabase), Options{}, n)
	same(t, "from the live server", want, live.contents())
	for _, key := range []string{"bits", "Sicily"} {
		for _, db := range []string{"0", "3"} {
			live.must("SELECT", db)
			redis.must("SELECT", db)
			if live.must("PFADD", "all", "x") != redis.must("PFADD", "all", "x") {
				t.Error("PFADD differs")
			}
			if a, b := live.do("GEOPOS", key, "Palermo"), redis.do("GEOPOS", key, "Palermo"); key == "Sicily" && toString(a) != toString(b) {
				t.Errorf("GEOPOS is %v, want %v", a, b)
			}
		}
	}
	want = live.contents()

	out := filepath.Join(dir, "out.rdb")
	file, err := CreateFile(out, rdb.Version, false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mustMove(t, live.server(AnyDatabase), file, Options{}, n+2)
	loaded, _ := startRedis(t, "--dir", dir, "--dbfilename", "out.rdb")
	same(t, "loaded by Redis", want, loaded.contents())
	// Both count the same values.
	for _, k := range loaded.must("KEYS", "*").([]any) {
		if loaded.must("TYPE", k.(string)) == "string" && toString(loaded.do("PFCOUNT", k.(string))) != toString(live.do("PFCOUNT", k.(string))) {
			t.Errorf("PFCOUNT %q differs", k)
		}
	}

	restored, _ := startRedis(t)
	mustMove(t, live.server(AnyDatabase), restored.server(AnyDatabase), Options{}, n+2)
	same(t, "restored into Redis", want, restored.contents())
}

func toString(v any) string {
	if err, ok := v.(error); ok {
		return "error " + err.Error()[:5]
	}
	return strings.TrimSpace(strings.Join(strings.Fields(fmt.Sprint(v)), " "))
}

func TestOneDatabase(t *testing.T) {
	from, to := startEngine(t), startEngine(t)
	from.must("SET", "a", "0")
	from.must("SELECT", "3")
	from.must("SET", "a", "3")
	if _, err := Move(t.Context(), from.server(AnyDatabase), to.server(5), Options{}); err == nil || !strings.Contains(err.Error(), "would be mixed in database 5") {
		t.Errorf("two databases into one: %v", err)
	}
	mustMove(t, from.server(3), to.server(5), Options{}, 1)
	mustMove(t, from.server(0), to.server(AnyDatabase), Options{}, 1)
	to.must("SELECT", "5")
	if got := to.must("GET", "a"); got != "3" {
		t.Errorf("a is %v", got)
	}
	to.must("SELECT", "0")
	if got := to.must("GET", "a"); got != "0" {
		t.Errorf("a is %v", got)
	}
	if _, err := Move(t.Context(), from.server(3), to.server(16), Options{}); err == nil || !strings.Contains(err.Error(), "database 16") {
		t.Errorf("a database that isn't there: %v", err)
	}
}

func TestTakenKeys(t *testing.T) {
	from, to := startEngine(t), startEngine(t)
	for _, k := range []string{"a", "b", "c"} {
		from.must("SET", k, "new")
	}
	to.must("SET", "b", "old")
	to.must("SET", "d", "old")
	result, err := Move(t.Context(), from.server(AnyDatabase), to.server(AnyDatabase), Options{})
	taken, ok := errors.AsType[*TakenError](err)
	if !ok || taken.Count != 1 || string(taken.Key) != "b" || result.Keys != 0 || to.must("DBSIZE") != int64(2) {
		t.Fatalf("%+v, %v, %v keys", result, err, to.must("DBSIZE"))
	}
	// A key that another client writes after the check.
	late := startEngine(t)
	server := late.server(AnyDatabase)
	late.must("SET", "b", "old")
	result, err = Move(t.Context(), from.server(AnyDatabase), server, Options{})
	if _, ok := errors.AsType[*TakenError](err); !ok || late.must("GET", "b") != "old" || result.Keys != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	mustMove(t, from.server(AnyDatabase), to.server(AnyDatabase), Options{Replace: true}, 3)
	if to.must("GET", "b") != "new" || to.must("GET", "d") != "old" {
		t.Error("not replaced, or too much")
	}
}

// module is the payload of a module's value, which no engine and no Redis without the module reads.
const module = "\x07\x81\x00\x00\x00\x00\x00\x00\x00\x07\x00" + "\x09\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"

func TestUnsupported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.rdb")
	var out bytes.Buffer
	f, err := rdb.NewFileWriter(&out, rdb.Version, time.Now())
	for _, e := range []rdb.Entry{
		{Key: []byte("a"), Payload: rdb.Payload(nil, &rdb.Value{Str: []byte("1")})},
		{Key: []byte("m"), Payload: []byte(module)}, {Key: []byte("m2"), Payload: []byte(module)},
	} {
		err = errors.Join(err, f.Write(e))
	}
	if err = errors.Join(err, f.Close(), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	to := startEngine(t)
	_, err = Move(t.Context(), rdbFile(t, path), to.server(AnyDatabase), Options{})
	unsupported, ok := errors.AsType[*UnsupportedError](err)
	if !ok || unsupported.Counts["value of a module"] != 2 || to.must("DBSIZE") != int64(0) || !strings.Contains(err.Error(), "2 values of a module") {
		t.Error(err)
	}
	result := mustMove(t, rdbFile(t, path), to.server(AnyDatabase), Options{SkipUnsupported: true}, 1)
	if result.Skipped["value of a module"] != 2 {
		t.Errorf("%+v", result)
	}
}

// TestStreams wants streams to be the same on an engine and on another Redis, and back, with their groups.
func TestStreams(t *testing.T) {
	redistest.Needs(t, 7, 0, "FUNCTION")
	dir := t.TempDir()
	redis, _ := startRedis(t, "--dir", dir)
	redis.must("SET", "a", "1")
	redis.must("XADD", "s", "*", "a", "b")
	redis.must("XGROUP", "CREATE", "s", "g", "0")
	redis.must("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
	redis.must("XADD", "s2", "*", "a", "b")
	redis.must("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
	redis.must("SAVE")
	sources := map[string]func() Source{
		"file": func() Source { return rdbFile(t, filepath.Join(dir, "dump.rdb")) },
		"live": func() Source { return redis.server(AnyDatabase) },
	}
	for name, source := range sources {
		engine := startEngine(t)
		mustMove(t, source(), engine.server(AnyDatabase), Options{}, 3)
		other, _ := startRedis(t)
		mustMove(t, source(), other.server(AnyDatabase), Options{}, 3)
		back, _ := startRedis(t)
		mustMove(t, engine.server(AnyDatabase), back.server(AnyDatabase), Options{}, 3)
		for to, store := range map[string]*store{"engine": engine, "redis": other, "back": back} {
			for _, key := range []string{"s", "s2"} {
				if toString(streamInfo(redis, key)) != toString(streamInfo(store, key)) {
					t.Errorf("%s to %s: stream %s differs", name, to, key)
				}
			}
		}
	}
}

// streamInfo returns all of a stream but active-time, which servers have since Redis 7.2.
func streamInfo(s *store, key string) any {
	var without func(v any) any
	without = func(v any) any {
		list, ok := v.([]any)
		if !ok {
			return v
		}
		var out []any
		for i := 0; i < len(list); i++ {
			if list[i] == "active-time" {
				i++
				continue
			}
			out = append(out, without(list[i]))
		}
		return out
	}
	return without(s.must("XINFO", "STREAM", key, "FULL"))
}

// Libraries of functions move with the keys: between servers, to and from a file.
func TestLibraries(t *testing.T) {
	redistest.Needs(t, 7, 0, "FUNCTION")
	dir := t.TempDir()
	redis, _ := startRedis(t, "--dir", dir)
	code := func(name string) string {
		return "#!lua name=" + name + "\n-- " + strings.Repeat("a comment that packs well ", 20) + "\nredis.register_function('" + name + "', function(keys) return redis.call('INCR', keys[1]) end)"
	}
	redis.must("SET", "k", "1")
	redis.must("FUNCTION", "LOAD", code("one"))
	redis.must("FUNCTION", "LOAD", code("two"))
	redis.must("SAVE")
	saved := filepath.Join(dir, "dump.rdb")
	engine := startEngine(t)
	move := func(from Source, to Target, opts Options) Result {
		t.Helper()
		result, err := Move(t.Context(), from, to, opts)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if r := move(rdbFile(t, saved), engine.server(AnyDatabase), Options{}); r.Libraries != 2 || r.Keys != 1 {
		t.Errorf("from the file: %+v", r)
	}
	if got := engine.must("FCALL", "two", "1", "k"); got != int64(2) {
		t.Errorf("FCALL on the engine: %v", got)
	}
	own := filepath.Join(dir, "own.rdb")
	file, err := CreateFile(own, rdb.Version, false)
	if err != nil {
		t.Fatal(err)
	}
	move(engine.server(AnyDatabase), file, Options{})
	other, _ := startRedis(t, "--dir", dir, "--dbfilename", "own.rdb")
	if got := other.must("FCALL", "one", "1", "k"); got != int64(3) {
		t.Errorf("FCALL on a Redis that has read our file: %v", got)
	}

	empty, _ := startRedis(t)
	empty.must("FUNCTION", "LOAD", code("two"))
	_, err = Move(t.Context(), redis.server(AnyDatabase), empty.server(AnyDatabase), Options{})
	if taken, ok := errors.AsType[*TakenError](err); !ok || taken.Error() != `library "two" of functions exists already` || empty.must("DBSIZE") != int64(0) {
		t.Errorf("a library that exists: %v", err)
	}
	if r := move(redis.server(AnyDatabase), empty.server(AnyDatabase), Options{Replace: true}); r.Libraries != 2 {
		t.Errorf("with Replace: %+v", r)
	}

	old, err := CreateFile(filepath.Join(dir, "old.rdb"), 9, false)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	_, err = Move(t.Context(), redis.server(AnyDatabase), old, Options{})
	if un, ok := errors.AsType[*UnsupportedError](err); !ok || un.Error() != "the target can't store 2 libraries of functions" {
		t.Errorf("to a file of version 9: %v", err)
	}
	if r := move(redis.server(AnyDatabase), old, Options{SkipUnsupported: true}); r.Functions != 2 || r.Libraries != 0 {
		t.Errorf("left out: %+v", r)
	}
	if r := move(redis.server(0), startEngine(t).server(0), Options{}); r.Libraries != 0 || r.Keys != 1 {
		t.Errorf("one database: %+v", r)
	}
}

// Redis 7.0 has no format for hashes with expiring fields.
func TestFieldTTL(t *testing.T) {
	from := startEngine(t)
	from.must("SET", "a", "1")
	from.must("HSET", "h", "f", "1", "g", "2")
	from.must("HPEXPIRE", "h", "1000000", "FIELDS", "1", "f")
	redis, _ := startRedis(t)
	old := filepath.Join(t.TempDir(), "old.rdb")
	targets := map[string]func() Target{
		"redis": func() Target { return redis.server(AnyDatabase) },
		"file": func() Target {
			f, err := CreateFile(old, rdb.Version, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			return f
		},
	}
	for name, target := range targets {
		_, err := Move(t.Context(), from.server(AnyDatabase), target(), Options{Replace: true})
		if err == nil || !strings.Contains(err.Error(), `1 hash with expiring fields, like key "h" in database 0`) {
			t.Errorf("%s: %v", name, err)
		}
		result := mustMove(t, from.server(AnyDatabase), target(), Options{Replace: true, SkipUnsupported: true}, 1)
		if len(result.Skipped) != 1 {
			t.Errorf("%s: %+v", name, result)
		}
	}
	path := filepath.Join(t.TempDir(), "new.rdb")
	f, err := CreateFile(path, rdb.VersionFieldTTL, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustMove(t, from.server(AnyDatabase), f, Options{}, 2)
	back := startEngine(t)
	mustMove(t, rdbFile(t, path), back.server(AnyDatabase), Options{}, 2)
	for _, s := range []string{"HGETALL h", "HPEXPIRETIME h FIELDS 2 f g"} {
		args := strings.Fields(s)
		if got, want := toString(back.must(args...)), toString(from.must(args...)); got != want {
			t.Errorf("%s is %v, want %v", s, got, want)
		}
	}
}

func TestDamagedFileWritesNothing(t *testing.T) {
	dir := t.TempDir()
	redis, _ := startRedis(t, "--dir", dir)
	fill(redis)
	redis.must("SAVE")
	path := filepath.Join(dir, "dump.rdb")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"cut": good[:len(good)/2], "flipped": flip(good), "no RDB file": []byte("appendonly yes\n"), "empty": nil,
		"no checksum and a broken value": []byte("REDIS0010\x00\x01a\x011\x10\x01h\x03abc\xff\x00\x00\x00\x00\x00\x00\x00\x00"),
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		to := startEngine(t)
		result, err := Move(t.Context(), rdbFile(t, path), to.server(AnyDatabase), Options{Replace: true})
		if fe, ok := errors.AsType[*rdb.FileError](err); !ok || !strings.HasPrefix(err.Error(), path+": ") || to.must("DBSIZE") != int64(0) || result.Keys != 0 {
			t.Errorf("%s: %+v, %v, %v", name, result, err, fe)
		}
	}
	if _, err := OpenFile(dir); err == nil {
		t.Error("a directory was opened")
	}
}

func flip(b []byte) []byte {
	b = append([]byte(nil), b...)
	b[len(b)/2] ^= 1
	return b
}

func TestNewFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.rdb")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateFile(path, rdb.Version, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	if _, err := CreateFile(dir, rdb.Version, true); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("over a directory: %v", err)
	}
	f, err := CreateFile(path, rdb.Version, true)
	if err != nil {
		t.Fatal(err)
	}
	// An unfinished file leaves the old file, and no other.
	ctx, cancel := context.WithCancel(t.Context())
	result, err := Move(ctx, &stalling{[]rdb.Entry{entry("a", "1", 0)}}, f, Options{Progress: func(Progress) { cancel() }})
	f.Close()
	if !errors.Is(err, context.Canceled) || result.Keys != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	names, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(path); err != nil || len(names) != 1 || string(text) != "old" {
		t.Errorf("%v, %q, %v", names, text, err)
	}
}

// Keys in flight when a move is ended arrive and are counted. Keys that expired meanwhile are not.
func TestInterrupted(t *testing.T) {
	to := startEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	from := &stalling{[]rdb.Entry{entry("a", "1", 0), entry("b", "2", time.Hour), entry("c", "3", -time.Hour)}}
	result, err := Move(ctx, from, to.server(AnyDatabase), Options{Progress: func(Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Keys != 2 || result.Expired != 1 || to.must("DBSIZE") != int64(2) {
		t.Errorf("%+v, %v, %v keys", result, err, to.must("DBSIZE"))
	}
}

// A target that closes its connection is an error.
func TestTargetGone(t *testing.T) {
	redis, server := startRedis(t)
	target := redis.server(AnyDatabase)
	server.Kill()
	from := &stalling{[]rdb.Entry{entry("a", "1", 0), entry("b", "2", 0)}}
	_, err := Move(t.Context(), from, target, Options{})
	if ne, ok := errors.AsType[*net.OpError](err); err == nil || !ok && !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v, %v", err, ne)
	}
}

func TestFormats(t *testing.T) {
	for version, want := range map[string]int{"6.2.14": 9, "7.0.15": 10, "7.2.4": 11, "7.4.0": 12, "8.2.1": 12, "valkey 7.2.5": 11, "valkey 8.1.0": 11, "valkey 9.0.0": 11, "": 9} {
		if got := format(version, false); got != want {
			t.Errorf("%q takes %d, want %d", version, got, want)
		}
	}
}
