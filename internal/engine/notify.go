package engine

import "strings"

// Classes of keyspace events, as in the configuration
// notify-keyspace-events.
const (
	eventKeyspace = 1 << iota // K
	eventKeyevent             // E
	eventGeneric              // g
	eventString               // $
	eventList                 // l
	eventSet                  // s
	eventHash                 // h
	eventZset                 // z
	eventExpired              // x
	eventEvicted              // e
	eventStream               // t
	eventMiss                 // m
	eventModule               // d
	eventNew                  // n

	eventAll = eventGeneric | eventString | eventList | eventSet | eventHash | eventZset | eventExpired | eventEvicted | eventStream | eventModule
)

const eventLetters = "KEg$lshzxetmdn"

// parseEvents reads the letters of notify-keyspace-events.
func parseEvents(s string) (flags uint32, ok bool) {
	for _, r := range s {
		if r == 'A' {
			flags |= eventAll
			continue
		}
		i := strings.IndexRune(eventLetters, r)
		if i < 0 {
			return 0, false
		}
		flags |= 1 << i
	}
	return flags, true
}

// formatEvents writes flags in the order in which Redis does.
func formatEvents(flags uint32) string {
	var b strings.Builder
	add := func(letters string) {
		for _, r := range letters {
			if flags&(1<<strings.IndexRune(eventLetters, r)) != 0 {
				b.WriteRune(r)
			}
		}
	}
	if flags&eventAll == eventAll {
		b.WriteByte('A')
	} else {
		add("g$lshzxetd")
		add("n")
	}
	add("KEm")
	if flags&eventAll == eventAll {
		add("n")
	}
	return b.String()
}

// notify sends the keyspace event of a change of key.
func (c *call) notify(class uint32, event string, key []byte) {
	if f := c.e.opts.Events; f != nil && !c.e.loading {
		i := 0
		for class>>(i+1) != 0 {
			i++
		}
		f(Event{Class: eventLetters[i], Name: event, DB: c.db, Key: key})
	}
	flags := c.e.config.events.Load()
	if flags&class == 0 {
		return
	}
	if flags&eventKeyspace != 0 {
		channel := append(appendInt([]byte("__keyspace@"), int64(c.db)), "__:"...)
		c.e.pubsub.publish(append(channel, key...), []byte(event))
	}
	if flags&eventKeyevent != 0 {
		channel := append(appendInt([]byte("__keyevent@"), int64(c.db)), "__:"...)
		c.e.pubsub.publish(append(channel, event...), key)
	}
}
