// Package settings fills command-line flags from the environment and from a YAML file.
//
//	err := settings.Fill(flags, settings.Sources{Env: os.LookupEnv, Prefix: "REDOUBT_", File: path})
//
// A setting is a flag. The command line overrides the environment, the environment overrides the file, and the
// file overrides the flag's default. The flag "max-clients" is REDOUBT_MAX_CLIENTS in the environment and
// "max-clients" in the file. The flag itself parses all three, so that a value means the same everywhere. The
// file is a mapping of settings. A key that names a command has a mapping with settings of that command
// alone, which come before the others. An unknown key is an error that names its line, and an unknown
// variable is an error too, because a misspelled setting without effect would be noticed too late.
//
// Rejected: Viper 1.21. It lower-cases keys and decodes the file into a map, so that it can refuse an unknown
// key (UnmarshalExact) but can't name its line. It also brings some ten modules (TOML, dotenv, watching of
// files, a virtual file system) that this binary does not use.
package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Sources are the sources of values besides the command line.
type Sources struct {
	// Env looks up an environment variable, like os.LookupEnv.
	Env func(name string) (string, bool)
	// Prefix begins the names of environment variables, like "REDOUBT_".
	Prefix string
	// File is the path of a YAML file. Empty means none.
	File string
	// Others are names that the file may have although this command has no such flag: settings of other
	// commands that share the file.
	Others []string
	// Except are flags that the file can't set, like the flag that names the file.
	Except []string
	// OnLine are flags that only the command line can set.
	OnLine []string
	// Path are the words of the command, like "queue" and "take". A section of the file is for the
	// command that its path begins with.
	Path []string
	// Section returns the settings that the section of a command may have, and whether there is such a
	// command. Nil means that the file has no sections.
	Section func(path []string) (allowed []string, ok bool)
	// Environ are all variables as NAME=value, like [os.Environ]. One that begins with Prefix and is no
	// setting is an error, except where Foreign returns true for it.
	Environ []string
	Foreign func(name, value string) bool
}

// Fill sets each flag that the command line did not set, from the environment or the file. It reports all
// errors of the environment and the file together.
func Fill(flags *pflag.FlagSet, from Sources) error {
	file, errs := readFile(flags, from)
	errs = append(errs, unknownVariables(flags, from)...)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || slices.Contains(from.OnLine, f.Name) {
			return
		}
		name := EnvName(from.Prefix, f.Name)
		if value, ok := from.Env(name); ok {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment: %s: %w", name, Plain(f, value, err)))
			}
			return
		}
		if s, ok := file[f.Name]; ok {
			if err := s.set(flags, f); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %s: %w", from.File, s.line, f.Name, err))
			}
		}
	})
	return errors.Join(errs...)
}

// Plain returns the error of a flag that refused a value, in plain words and without the flag's name.
func Plain(f *pflag.Flag, value string, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = bad.Unwrap()
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		switch {
		case errors.Is(number, strconv.ErrRange):
			return fmt.Errorf("%q is out of range", value)
		case f.Value.Type() == "bool":
			return fmt.Errorf("%q is neither true nor false", value)
		case strings.HasPrefix(f.Value.Type(), "float"):
			return fmt.Errorf("%q is not a number", value)
		}
		return fmt.Errorf("%q is not a whole number", value)
	}
	if _, bad := time.ParseDuration(value); bad != nil && bad.Error() == err.Error() {
		return fmt.Errorf("%q is not a duration; want one like 300ms, 90s or 1h30m", value)
	}
	return err
}

// unknownVariables returns an error for each variable with the prefix that sets nothing.
func unknownVariables(flags *pflag.FlagSet, from Sources) (errs []error) {
	known := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { known[EnvName(from.Prefix, f.Name)] = true })
	for _, name := range from.OnLine {
		delete(known, EnvName(from.Prefix, name))
	}
	for _, name := range slices.Concat(from.Others, from.Except) {
		known[EnvName(from.Prefix, name)] = true
	}
	for _, variable := range from.Environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, from.Prefix) || known[name] || from.Foreign != nil && from.Foreign(name, value) {
			continue
		}
		text := "no setting has this name"
		if near := Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			text += "; did you mean " + near + "?"
		}
		for _, flag := range from.OnLine {
			if name == EnvName(from.Prefix, flag) {
				text = "only the command line can set --" + flag
			}
		}
		errs = append(errs, fmt.Errorf("environment: %s: %s", name, text))
	}
	return errs
}

// Nearest returns the word that differs least from a misspelled one, or "" if none is near. It counts letters
// that are changed, added or left out, and neighbours that are swapped.
func Nearest(misspelled string, words []string) (nearest string) {
	least := max(1, len(misspelled)/4) + 1
	for _, word := range words {
		if d := typos(misspelled, word); d < least {
			nearest, least = word, d
		}
	}
	return nearest
}

// typos is the optimal string alignment distance. Row i has the distances of a[:i] from the beginnings of b.
func typos(a, b string) int {
	var before []int // two rows above
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(row[j], above[j+1]) + 1
			switch {
			case a[i] == b[j]:
				row[j+1] = min(row[j+1], above[j])
			case i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j]:
				row[j+1] = min(row[j+1], above[j]+1, before[j-1]+1)
			default:
				row[j+1] = min(row[j+1], above[j]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

// EnvName returns the name of the environment variable for a flag.
func EnvName(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// A setting is a value in the file, or a list of values.
type setting struct {
	value  string
	list   []string
	isList bool
	line   int
}

// set gives a flag the value. Only a flag that takes several values takes a list.
func (s setting) set(flags *pflag.FlagSet, f *pflag.Flag) error {
	several, ok := f.Value.(pflag.SliceValue)
	if s.isList && !ok {
		return errSingle
	}
	if err := flags.Set(f.Name, s.value); err != nil { // of a list: an empty value, and then the list
		return Plain(f, s.value, err)
	}
	if s.isList {
		return several.Replace(s.list)
	}
	return nil
}

var errSingle = errors.New("want a single value")

func readFile(flags *pflag.FlagSet, from Sources) (map[string]setting, []error) {
	if from.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(from.File)
	if err != nil {
		return nil, []error{err}
	}
	allowed := slices.Clone(from.Others)
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(from.OnLine, f.Name) {
			allowed = append(allowed, f.Name)
		}
	})
	slices.Sort(allowed)
	allowed = slices.Compact(allowed)
	allowed = slices.DeleteFunc(allowed, func(name string) bool { return slices.Contains(from.Except, name) })
	settings, errs := parse(text, allowed, from)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s:%w", from.File, err)
	}
	return settings, errs
}

// parse reads the settings of the file. Its errors begin with the line.
func parse(text []byte, allowed []string, from Sources) (map[string]setting, []error) {
	var doc yaml.Node
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // only comments
	} else if err != nil {
		return nil, []error{fmt.Errorf(" %s", NoYAML(err))} // the text names the line
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, []error{errors.New(" has a second document; want one")}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%d: want lines like `listen: 127.0.0.1:6380`", root.Line)}
	}
	p := parser{from: from, settings: map[string]setting{}}
	p.mapping(root, nil, allowed)
	return p.settings, p.errs
}

// A parser collects settings of the command and all errors of the file.
type parser struct {
	from     Sources
	settings map[string]setting
	errs     []error
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%d: "+format, append([]any{n.Line}, args...)...))
}

// mapping reads the settings at path: the words of the command that they are for.
func (p *parser) mapping(n *yaml.Node, path, allowed []string) {
	first := map[string]int{} // line
	var sections []func()     // read after the settings, which they override
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		twice := first[key.Value]
		first[key.Value] = key.Line
		below := append(slices.Clone(path), key.Value)
		switch {
		case twice > 0:
			p.fail(key, "%s is set twice; first in line %d", key.Value, twice)
		case p.from.Section != nil && value.Kind == yaml.MappingNode && p.isCommand(below):
			inside, _ := p.from.Section(below)
			sections = append(sections, func() { p.mapping(value, below, inside) })
		case !slices.Contains(allowed, key.Value):
			p.fail(key, "unknown setting %q; allowed are %s", Word(key.Value), strings.Join(allowed, ", "))
		case value.Kind == yaml.SequenceNode && !slices.ContainsFunc(value.Content, isNoValue):
			if p.isFor(path) {
				s := setting{isList: true, line: key.Line}
				for _, item := range value.Content {
					s.list = append(s.list, item.Value)
				}
				p.settings[key.Value] = s
			}
		case value.Kind != yaml.ScalarNode:
			p.fail(value, "%s: %w", key.Value, errSingle)
		case value.Tag == "!!null":
			p.fail(value, `%s has no value; write "" for an empty one`, key.Value)
		case p.isFor(path):
			p.settings[key.Value] = setting{value: value.Value, line: key.Line}
		}
	}
	for _, read := range sections {
		read()
	}
}

// isFor reports whether settings at path are for the command that runs.
func (p *parser) isFor(path []string) bool {
	return len(path) <= len(p.from.Path) && slices.Equal(path, p.from.Path[:len(path)])
}

// isNoValue reports whether an element of a list is no single value.
func isNoValue(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode || n.Tag == "!!null" }

func (p *parser) isCommand(path []string) bool {
	_, ok := p.from.Section(path)
	return ok
}

// NoYAML returns why a text is not valid YAML, without showing any of the text. YAML takes a password that
// begins with an asterisk for an alias, and the error of the library would show it.
func NoYAML(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(text, "unknown anchor") {
		return "a value begins with an asterisk; put it in quotes"
	}
	return text
}

// Word returns the part of a key that errors may show: the name at its beginning. The rest may be a value
// without a proper separator, like a password.
func Word(key string) string {
	end := strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if end < 0 {
		return key
	}
	return key[:end] + "…"
}
