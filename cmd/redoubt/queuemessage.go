package main

import (
	"time"
	"unicode/utf8"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A messageState is the JSON form of a message. A payload that is not UTF-8 is in payload_base64.
type messageState struct {
	ID         string            `json:"id"`
	Attempt    int               `json:"attempt,omitempty"`
	Failures   int               `json:"failures,omitempty"`
	Attempts   int               `json:"attempts"` // -1: unlimited
	Died       *time.Time        `json:"died,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Lane       int               `json:"lane"`
	Group      string            `json:"group,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	After      []string          `json:"after,omitempty"`
	Payload    *string           `json:"payload,omitempty"`
	Bytes      []byte            `json:"payload_base64,omitempty"`
	Unreadable bool              `json:"unreadable,omitempty"` // an entry of the queue that is not a message of ours
}

func messageStateOf(m wire.Message) messageState {
	s := messageState{ID: m.ID, Attempts: m.Attempts, Lane: int(m.Lane), Group: m.Group, Headers: m.Headers, After: m.After}
	if utf8.Valid(m.Payload) {
		s.Payload = new(string(m.Payload))
	} else {
		s.Bytes = m.Payload
	}
	return s
}
