package main

import (
	"fmt"
	"time"
)

// A durationOr is a flag's value: a duration of at least 0, or one word like "forever".
type durationOr struct {
	word   string
	isWord bool
	d      time.Duration
}

// Set implements pflag.Value.
func (v *durationOr) Set(s string) error {
	if s == v.word {
		v.isWord = true
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither a duration like 90s or 5m, nor %s", s, v.word)
	}
	v.isWord, v.d = false, d
	return nil
}

// String implements pflag.Value.
func (v *durationOr) String() string {
	if v.isWord {
		return v.word
	}
	return v.d.String()
}

// Type implements pflag.Value: it names the value in help.
func (v *durationOr) Type() string { return "duration" }
