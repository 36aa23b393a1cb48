package redoubt_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The rules of CONTRIBUTING.md for the public packages, as far as api.txt shows whether a package
// keeps them.

// An apiRule rejects a name of the API unless its declaration has the right form.
type apiRule struct {
	kinds []string       // func, method, interface, struct, const, var; nil for all
	name  *regexp.Regexp // of the names that the rule is about
	form  *regexp.Regexp // of what follows the name; nil: there is no right form
	want  string
}

var apiRules = []apiRule{
	{
		[]string{"func", "method", "interface"}, regexp.MustCompile(`^(Inspect|Find|Peek|Largest)$`), nil,
		"call it Info(ctx, name): it reads the state of a name from the server",
	},
	{
		[]string{"func", "method", "interface"}, regexp.MustCompile(`^(Clear|Forget|Unset|DeleteAll)$`), nil,
		"call it Delete (a whole name), Remove (elements of a name) or Reset (a counter)",
	},
	{
		nil, regexp.MustCompile(`^(Was|Was[A-Z]\w*|How|Placed|Bury|Buried|Elsewhen|ErrElsewhen|ErrOffTheGlobe|ErrNoHeat|Fence)$`), nil,
		"use the field's term",
	},
	{
		[]string{"func", "method", "interface"}, regexp.MustCompile(`^Check$`), nil,
		"call it Validate",
	},
	{
		[]string{"method", "interface"}, regexp.MustCompile(`^Close$`), regexp.MustCompile(`^\(\) error$`),
		"want Close() error; Flush(ctx) error sends what must be sent",
	},
	{
		[]string{"method"}, regexp.MustCompile(`^Flush$`), regexp.MustCompile(`^\(ctx context\.Context\) error$`),
		"want Flush(ctx context.Context) error",
	},
	{
		[]string{"method"}, regexp.MustCompile(`^Info$`), regexp.MustCompile(`^\(ctx context\.Context\b.*error\)$`),
		"want Info(ctx, name) (…, error): it reads from the server; Stats() returns counters of this process",
	},
	{
		[]string{"method"}, regexp.MustCompile(`^Stats$`), regexp.MustCompile(`^\(\) \w+$`),
		"want Stats() Stats: it returns counters of this process; Info(ctx, name) reads from the server",
	},
	{
		[]string{"func", "method"}, regexp.MustCompile(`^List$`), regexp.MustCompile(`^\(ctx context\.Context, match string\) iter\.Seq2\[.*, error\]$`),
		"want List(ctx context.Context, match string) iter.Seq2[X, error] on the main type",
	},
	{
		[]string{"method"}, regexp.MustCompile(`^(Open|Open[A-Z]\w*|Reset|Invalidate)$`), regexp.MustCompile(`^\((ctx|_) context\.Context\b`),
		"its first parameter is a context",
	},
	{
		[]string{"method", "interface"}, regexp.MustCompile(`^Delete$`),
		regexp.MustCompile(`^\(ctx context\.Context, (name|resource) string\) \(deleted bool, err error\)$|^\(ctx context\.Context, keys \*Iterator\[string\]`),
		"want Delete(ctx context.Context, name string) (deleted bool, err error) on the main type: it removes a whole name",
	},
	{
		[]string{"method"}, regexp.MustCompile(`Many$`), regexp.MustCompile(`^\(ctx context\.Context, [^.]*\[\][^.]*`),
		"it takes a context and a slice",
	},
	{
		[]string{"struct"}, regexp.MustCompile(`^Token$`), regexp.MustCompile(`^ int64$`),
		"a fencing token is an int64",
	},
	{
		[]string{"struct"}, regexp.MustCompile(`^OnEvent$`), regexp.MustCompile(`^ func\(ctx context\.Context, e Event\)$`),
		"want OnEvent func(ctx context.Context, e Event)",
	},
	{
		[]string{"struct"}, regexp.MustCompile(`^Events$`), regexp.MustCompile(`^ [^f]`),
		"call the function OnEvent",
	},
	{
		[]string{"func"}, regexp.MustCompile(`^Log$`), regexp.MustCompile(`^\(logger \*slog\.Logger\) func\(ctx context\.Context, e Event\)$`),
		"want Log(logger *slog.Logger) func(ctx context.Context, e Event)",
	},
}

var (
	apiLine     = regexp.MustCompile(`^[\w./]+: (func|method|type|const|var) (.*)$`)
	apiMethod   = regexp.MustCompile(`^\(\*?\w+\) (\w+)(.*)$`)
	apiField    = regexp.MustCompile(`^\w+ (struct|interface), (\w+)(.*)$`)
	apiName     = regexp.MustCompile(`^(\w+)(.*)$`)
	constructor = regexp.MustCompile(`^(\[.*\])?\((client \*redoubt\.Client|clients \[\]\*redoubt\.Client), (?:opts|_) (\w*)Options(\[.*\])?\) \(\*\w+(\[.*\])?, error\)$`)
	variadic    = regexp.MustCompile(`\.\.\.[^()]*\) \(?(\w+ )?(\[\]|map\[)`)
)

// parseAPI splits a line of api.txt. kind is func, method, struct (a field), interface (a method of
// one), type, const or var, and rest is what follows the name.
func parseAPI(line string) (kind, name, rest string) {
	m := apiLine.FindStringSubmatch(line)
	if m == nil {
		return "", "", ""
	}
	kind = m[1]
	if kind == "method" {
		n := apiMethod.FindStringSubmatch(m[2])
		return kind, n[1], n[2]
	}
	if n := apiField.FindStringSubmatch(m[2]); kind == "type" && n != nil {
		return n[1], n[2], n[3]
	}
	n := apiName.FindStringSubmatch(m[2])
	return kind, n[1], n[2]
}

// apiFaults returns what is wrong with a line of api.txt.
func apiFaults(line string) (faults []string) {
	kind, name, rest := parseAPI(line)
	fault := func(want string) { faults = append(faults, fmt.Sprintf("%s\n\t%s", line, want)) }
	for _, r := range apiRules {
		if (r.kinds == nil || slices.Contains(r.kinds, kind)) && r.name.MatchString(name) && (r.form == nil || !r.form.MatchString(rest)) {
			fault(r.want)
		}
	}
	if kind == "func" && strings.Contains(rest, "*redoubt.Client") {
		of, isNew := strings.CutPrefix(name, "New")
		switch m := constructor.FindStringSubmatch(rest); {
		case !isNew:
			fault("only New… takes a *redoubt.Client: make it a method of the main type")
		case m == nil:
			fault(fmt.Sprintf("want %s(client *redoubt.Client, opts %sOptions) (*T, error)", name, of))
		case m[3] != of && m[3]+"s" != of:
			fault(fmt.Sprintf("its options are called %sOptions and have only fields that it uses", of))
		}
	}
	if (kind == "func" || kind == "method") && variadic.MatchString(rest) {
		fault("a variadic function returns one result for all items: call it …Many and let it take a slice")
	}
	return faults
}

func TestAPIKeepsTheRules(t *testing.T) {
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		_, name, _ := parseAPI(line)
		if name == "" {
			t.Errorf("a line of api.txt that this test can't read: %s", line)
		}
		if strings.HasPrefix(line, sharedPackage+":") {
			continue
		}
		for _, f := range apiFaults(line) {
			t.Error(f)
		}
	}
}

func TestAPIFaultsAreFound(t *testing.T) {
	for line, want := range map[string]int{
		"x: func New(client *redoubt.Client, opts Options) (*Mutex, error)":                                        0,
		"x: func New(client *redoubt.Client, _ Options) (*Mutex, error)":                                           0,
		"x: func New[K comparable, V any](client *redoubt.Client, opts Options[K, V]) (*Cache[K, V], error)":       0,
		"x: func NewRW(client *redoubt.Client, opts RWOptions) (*RWMutex, error)":                                  0,
		"x: func NewCalendars(client *redoubt.Client, opts CalendarOptions) (*Calendars, error)":                   0,
		"x: func NewQuorum(clients []*redoubt.Client, opts QuorumOptions) (*Quorum, error)":                        0,
		"x: func NewRW(client *redoubt.Client, opts Options) (*RWMutex, error)":                                    1,
		"x: func New(client *redoubt.Client, name string, opts Options) (*Mutex, error)":                           1,
		"x: func New(client *redoubt.Client) *Mutex":                                                               1,
		"x: func NewSQL(opts SQLOptions) (*SQL, error)":                                                            0,
		"x: func CountKeys(ctx context.Context, client *redoubt.Client, keys ...string) (int64, error)":            1,
		"x: method (*Cache) Close() error":                                                                         0,
		"x: method (*Cache) Close(ctx context.Context) error":                                                      1,
		"x: method (*Cache) Close()":                                                                               1,
		"x: type C interface, Close()":                                                                             1,
		"x: method (*Visitors) Flush() error":                                                                      1,
		"x: method (*Guard) Largest(ctx context.Context, name string) (int64, error)":                              1,
		"x: method (*Guard) Forget(ctx context.Context, name string) error":                                        1,
		"x: func Inspect(name string) Info":                                                                        1,
		"x: type Info struct, Largest int64":                                                                       0,
		"x: const WasDead Was = wire.WasDead":                                                                      1,
		"x: var ErrOffTheGlobe":                                                                                    1,
		"x: method (Query) Check() error":                                                                          1,
		"x: method (*Mutex) Info(ctx context.Context, name string) (Info, error)":                                  0,
		"x: method (*Local) Info() Info":                                                                           1,
		"x: method (*Queue) Stats() Stats":                                                                         0,
		"x: method (*Queue) Stats(ctx context.Context, name string) (Stats, error)":                                1,
		"x: method (*Mutex) List(ctx context.Context, match string) iter.Seq2[Listed[Info], error]":                0,
		"x: method (*Mutex) List(ctx context.Context) ([]Info, error)":                                             1,
		"x: method (*Indexes) Open(_ context.Context, name string) (*Index, error)":                                0,
		"x: method (*Indexes) Open(name string) (*Index, error)":                                                   1,
		"x: method (*Scanner) Delete(ctx context.Context, keys *Iterator[string], b Bulk) (Done, error)":           0,
		"x: method (*Hashes) Delete(ctx context.Context, name string) (deleted bool, err error)":                   0,
		"x: method (*Hashes) Delete(ctx context.Context, name string) error":                                       1,
		"x: method (*Index) Delete(ctx context.Context) (deleted bool, err error)":                                 1,
		"x: method (*Hashes) GetMany(ctx context.Context, name string, fields []string) (map[string]Item, error)":  0,
		"x: method (*Hashes) GetMany(ctx context.Context, name string, fields ...string) (map[string]Item, error)": 2,
		"x: method (*Guard) Do(ctx context.Context, cmds ...redoubt.Cmd) ([]redoubt.Reply, error)":                 1,
		"x: method (*Maps) Set(ctx context.Context, offsets ...uint64) (changed int64, err error)":                 0,
		"x: type Info struct, Token int64":                                                                         0,
		"x: type Info struct, Token string":                                                                        1,
		"x: type Info struct, Fence int64":                                                                         1,
		"x: type Options struct, OnEvent func(ctx context.Context, e Event)":                                       0,
		"x: type Options struct, OnEvent func(e Event)":                                                            1,
		"x: type Options struct, Events func(ctx context.Context, e Event)":                                        1,
		"x: func Log(logger *slog.Logger) func(ctx context.Context, e Event)":                                      0,
		"x: func Log(logger *slog.Logger) func(e Event)":                                                           1,
	} {
		if got := apiFaults(line); len(got) != want {
			t.Errorf("%s: found %q, want %d", line, got, want)
		}
	}
}
