package acl_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestParseFile: the users of a file; its errors name the line and never show a password.
func TestParseFile(t *testing.T) {
	rules, scripted, err := acl.ParseFile("users.acl", "# people\n\nuser a on >pw ~* &* +@all\r\nuser  b on  >pw ~b* +eval\nuser c\n")
	want := map[string]string{"a": "on >pw ~* &* +@all", "b": "on >pw ~b* +eval", "c": ""}
	if err != nil || !maps.Equal(rules, want) || !slices.Equal(scripted, []string{"b"}) {
		t.Errorf("%q, %q, %v", rules, scripted, err)
	}
	for text, want := range map[string]string{
		"":                               "users.acl has no user; want a line like",
		"user a on\nsomething hush\n":    `users.acl:2: want a line like "user name`,
		"user\n":                         "users.acl:1: want a line like",
		"user a on\nuser a on >hush\n":   `users.acl:2: an earlier line has user "a" too`,
		"user a hush\n":                  `users.acl:1: user "a": rule 1 is unknown`,
		"user a +nosuch ~* ~b\nuser b x": `users.acl:2: user "b": rule 1 is unknown`,
	} {
		if _, _, err := acl.ParseFile("users.acl", text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestLineIsRedis: a real server takes the line of a user, and says of that user what it says of one with the rules
// that the line is made of; and the line makes the same user here.
func TestLineIsRedis(t *testing.T) {
	rdb := clienttest.Dial(t, redistest.Start(t).Addr())
	describe := func(rules string) []any {
		t.Helper()
		args := []any{"ACL", "SETUSER", "u", "reset"}
		for r := range strings.FieldsSeq(rules) {
			args = append(args, r)
		}
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%q: %v", rules, err)
		}
		said, err := rdb.Do(t.Context(), "ACL", "LIST").Slice()
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	for _, rules := range []string{
		"", "on nopass", "on >pw >other <pw ~* &* +@all", "%R~a* %W~b ~c &x &y* +get -get +set", "+@all -@dangerous +config|get -config|set",
		"+@read -get +@write -@all +client|id", "+client -client|kill +client", "~a %R~b %W~b resetkeys %RW~d", "+@all &* resetchannels &z nopass resetpass",
		"on >pw ~* +@all reset ~x +GET",
	} {
		u, err := acl.New("u", rules)
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(u.Line(), "user u ")
		if got, want := describe(line), describe(rules); !slices.Equal(got, want) {
			t.Errorf("%q is %q\n%v\nwant %v", rules, line, got, want)
		}
		again, err := acl.New("u", line)
		if err != nil || again.Line() != u.Line() {
			t.Errorf("%q became %q, %v", u.Line(), again.Line(), err)
		}
	}
}

// TestLinesReadBack: what ACL SETUSER takes, ACL SAVE writes so that it means the same when it is read.
func TestLinesReadBack(t *testing.T) {
	for _, rules := range [][]string{
		{"on", ">with blank", "~a*", "+@all"}, {"~a\u00a0~*", "+get"}, {"&a\u0085b", "-@all", "+select|0"}, {"(+get ~x\u00a0y)", "#" + strings.Repeat("a", 64)},
		{"+select|a b"}, {"+select|x\nuser evil on nopass ~* +@all"}, {"~a b"}, {"~a\x00"}, {"&a\tb"}, {"nopass", "skip-sanitize-payload", "+@all", "-@dangerous", "+info"},
	} {
		u, err := acl.New("name", "")
		if err != nil {
			t.Fatal(err)
		}
		if u, err = u.With(rules); err != nil {
			continue // it is refused
		}
		all, _, err := acl.ParseFile("file", u.Line()+"\n")
		if err != nil || len(all) != 1 {
			t.Errorf("%q: %q reads as %v, %v", rules, u.Line(), all, err)
			continue
		}
		if back, err := acl.New("name", all["name"]); err != nil || !back.Same(u) {
			t.Errorf("%q: %q reads as %v, %v", rules, u.Line(), back, err)
		}
	}
	for _, rules := range [][]string{{"+select|a b"}, {"+select|x\nuser evil on nopass ~* +@all"}} {
		u, _ := acl.New("name", "")
		if _, err := u.With(rules); err == nil {
			t.Errorf("%q is taken", rules)
		}
	}
}

// FuzzParseFile wants a file to be taken or refused as its users are, and no error to show a password.
func FuzzParseFile(f *testing.F) {
	f.Add("user ann on ", " ~* +@all\nuser bob off\n# user")
	f.Add("", " hush\nuser a a\nuser a")
	f.Fuzz(func(t *testing.T, before, behind string) {
		const password = "correct-horse-battery"
		rules, scripted, err := acl.ParseFile("users.acl", before+"\nuser one on >"+password+" "+behind)
		if err != nil {
			if strings.Contains(err.Error(), password) {
				t.Fatalf("the error has the password: %v", err)
			}
			return
		}
		if len(rules) == 0 {
			t.Fatal("no error, and no user")
		}
		for name, text := range rules {
			if _, err := acl.New(name, text); err != nil {
				t.Fatalf("user %q was taken: %v", name, err)
			}
		}
		for _, name := range scripted {
			if _, ok := rules[name]; !ok {
				t.Fatalf("%q is no user", name)
			}
		}
	})
}
