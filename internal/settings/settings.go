// Package settings fills command-line flags from the environment and from a YAML file.
//
//	err := settings.Fill(flags, settings.Sources{Env: os.LookupEnv, Prefix: "REDOUBT_", File: path})
//
// A setting is a flag. The command line overrides the environment, the environment overrides the file, and the
// file overrides the flag's default. The flag "max-clients" is REDOUBT_MAX_CLIENTS in the environment and
// "max-clients" in the file. The flag itself parses all three, so that a value means the same everywhere. The
// file is one flat mapping. An unknown key is an error that names its line, because a misspelled setting
// without effect would be noticed too late.
//
// Rejected: Viper 1.21. It lower-cases keys and decodes the file into a map, so that it can refuse an unknown
// key (UnmarshalExact) but can't name its line. It also brings some ten modules (TOML, dotenv, watching of
// files, a virtual file system) that this binary does not use.
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
}

// Fill sets each flag that the command line did not set, from the environment or the file. It reports all
// errors of the environment and the file together.
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

// plain removes pflag's text about the flag from the error of a bad value: the value did not come from the
// command line.
func plain(err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return bad.Unwrap()
	}
	return err
}

// EnvName returns the name of the environment variable for a flag.
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
