package main

import (
	"time"
	"unicode/utf8"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A messageState is a message. Its JSON is what take and dead print. A payload that
// is no text is in payload_base64 instead.
type messageState struct {
	ID         string            `json:"id"`
	Attempt    int               `json:"attempt,omitempty"`
	Failures   int               `json:"failures,omitempty"`
	Attempts   int               `json:"attempts"` // -1: no end
	Died       *time.Time        `json:"died,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Lane       int               `json:"lane"`
	Group      string            `json:"group,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Payload    *string           `json:"payload,omitempty"`
	Bytes      []byte            `json:"payload_base64,omitempty"`
	Unreadable bool              `json:"unreadable,omitempty"` // no message: something else wrote it
}

func messageStateOf(m wire.Message) messageState {
	s := messageState{ID: m.ID, Attempts: m.Attempts, Lane: int(m.Lane), Group: m.Group, Headers: m.Headers}
	if utf8.Valid(m.Payload) {
		s.Payload = new(string(m.Payload))
	} else {
		s.Bytes = m.Payload
	}
	return s
}
