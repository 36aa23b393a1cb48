// Package settings fills command-line flags from the environment and from a
// YAML file.
//
// A setting is a flag. What was given on the command line counts most, then
// the environment, then the file, then the flag's default. The flag
// "max-clients" is REDOUBT_MAX_CLIENTS in the environment and "max-clients" in
// the file. All three are parsed by the flag itself, so a value means the same
// everywhere. The file is one flat mapping; a key that is no setting is an
// error that names its line, because a setting that was misspelled and passed
// over is found out too late.
//
// This is all that is needed of a configuration library. Viper 1.21 was looked
// at: it lower-cases keys and decodes the file into a map, so that an unknown
// key can be refused (UnmarshalExact) but its line not be told, and it brings
// some ten modules (TOML, dotenv, watching of files, a virtual file system)
// that this binary doesn't use.
package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Sources say where the values of flags may come from besides the command
// line.
type Sources struct {
	// Env looks up an environment variable, like os.LookupEnv.
	Env func(name string) (string, bool)
	// Prefix begins the names of environment variables, like "REDOUBT_".
	Prefix string
	// File is the path of a YAML file. Empty means none.
	File string
	// Others are settings that may stand in the file although no flag of
	// this command has their name: those of other commands that share it.
	Others []string
	// Except are flags that can't be set in the file, like the one that
	// names it.
	Except []string
	// OnLine are flags that can be set on the command line only.
	OnLine []string
}

// Fill sets each flag that was not given on the command line from the
// environment or the file. It reports all faults of the environment and the
// file at once.
func Fill(flags *pflag.FlagSet, from Sources) error {
	file, errs := readFile(flags, from)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || slices.Contains(from.OnLine, f.Name) {
			return
		}
		name := EnvName(from.Prefix, f.Name)
		if value, ok := from.Env(name); ok {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment: %s: %w", name, plain(err)))
			}
			return
		}
		if s, ok := file[f.Name]; ok {
			if err := flags.Set(f.Name, s.value); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %s: %w", from.File, s.line, f.Name, plain(err)))
			}
		}
	})
	return errors.Join(errs...)
}

// plain takes off what pflag says about the flag around a bad value: the value
// didn't come from the command line.
func plain(err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return bad.Unwrap()
	}
	return err
}

// EnvName is the environment variable for a flag.
func EnvName(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// A setting is a value in the file.
type setting struct {
	value string
	line  int
}

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
	settings, errs := parse(text, allowed)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s:%w", from.File, err)
	}
	return settings, errs
}

// parse reads a flat mapping. Its errors begin with the line.
func parse(text []byte, allowed []string) (map[string]setting, []error) {
	var doc yaml.Node
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // nothing but comments
	} else if err != nil {
		return nil, []error{fmt.Errorf(" %s", NoYAML(err))} // names the line itself
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
	settings := map[string]setting{}
	var errs []error
	fail := func(n *yaml.Node, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%d: "+format, append([]any{n.Line}, args...)...))
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		first, twice := settings[key.Value]
		switch {
		case !slices.Contains(allowed, key.Value):
			fail(key, "unknown setting %q; allowed are %s", Word(key.Value), strings.Join(allowed, ", "))
		case twice:
			fail(key, "%s is set twice; first in line %d", key.Value, first.line)
		case value.Kind != yaml.ScalarNode:
			fail(value, "%s: want a single value", key.Value)
		case value.Tag == "!!null":
			fail(value, `%s has no value; write "" for an empty one`, key.Value)
		default:
			settings[key.Value] = setting{value.Value, key.Line}
		}
	}
	return settings, errs
}

// NoYAML says why a text is no YAML, without showing any of it: a password that
// begins with an asterisk is taken for the name of something.
func NoYAML(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(text, "unknown anchor") {
		return "a value begins with an asterisk; put it in quotes"
	}
	return text
}

// Word returns what of a key may be shown: the name at its beginning. What follows
// may be a value that is not separated as it should be, like a password.
func Word(key string) string {
	end := strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if end < 0 {
		return key
	}
	return key[:end] + "…"
}
