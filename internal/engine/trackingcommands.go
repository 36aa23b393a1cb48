package engine

import (
	"bytes"
	"fmt"
)

// cmdClientTracking answers CLIENT TRACKING ON | OFF [REDIRECT id]
// [PREFIX prefix …] [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func cmdClientTracking(c *call) {
	t := &tracker{s: c.s}
	for i := 3; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case is(a, "redirect") && i+1 < len(c.args):
			i++
			if t.redirect != 0 {
				c.err("ERR A client can only redirect to a single other client")
				return
			}
			id, ok := c.argInt(c.args[i])
			if !ok {
				return
			}
			if t.redirect = id; c.e.clients.get(id) == nil {
				c.err("ERR The client ID you want redirect to does not exist")
				return
			}
		case is(a, "bcast"):
			t.broadcast = true
		case is(a, "optin"):
			t.optIn = true
		case is(a, "optout"):
			t.optOut = true
		case is(a, "noloop"):
			t.noLoop = true
		case is(a, "prefix") && i+1 < len(c.args):
			i++
			if t.prefixes = append(t.prefixes, clone(c.args[i])); len(t.prefixes) > c.e.bounds.prefixes {
				c.err("ERR too many prefixes")
				return
			}
		default:
			c.syntax()
			return
		}
	}
	switch a := c.args[2]; {
	case is(a, "on"):
		if msg := t.replace(c.s.tracker.Load()); msg != "" {
			c.err("ERR " + msg)
			return
		}
		c.s.track(t)
	case is(a, "off"):
		c.s.track(nil)
	default:
		c.syntax()
		return
	}
	c.ok()
}

// replace checks the options of t, which is to replace old, and copies the state of old that stays.
// It returns the fault, "" for none.
func (t *tracker) replace(old *tracker) string {
	switch {
	case !t.broadcast && len(t.prefixes) > 0:
		return "PREFIX option requires BCAST mode to be enabled"
	case old != nil && old.broadcast != t.broadcast:
		return "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	case t.broadcast && (t.optIn || t.optOut):
		return "OPTIN and OPTOUT are not compatible with BCAST"
	case t.optIn && t.optOut:
		return "You can't specify both OPTIN mode and OPTOUT mode"
	case old != nil && (t.optIn && old.optOut || t.optOut && old.optIn):
		return "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	}
	if t.broadcast && len(t.prefixes) == 0 {
		t.prefixes = [][]byte{{}}
	}
	for i, p := range t.prefixes {
		if old != nil {
			for _, q := range old.prefixes {
				if overlap(p, q) {
					return fmt.Sprintf("Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", p, q)
				}
			}
		}
		for _, q := range t.prefixes[i+1:] {
			if overlap(p, q) {
				return fmt.Sprintf("Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", p, q)
			}
		}
	}
	if old != nil {
		if t.prefixes = append(t.prefixes, old.prefixes...); len(t.prefixes) > t.s.e.bounds.prefixes {
			return "too many prefixes"
		}
	}
	return ""
}

func overlap(p, q []byte) bool { return bytes.HasPrefix(p, q) || bytes.HasPrefix(q, p) }

func cmdClientCaching(c *call) {
	t := c.s.tracker.Load()
	if t == nil {
		c.err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
		return
	}
	switch a := c.args[2]; {
	case is(a, "yes") && !t.optIn:
		c.err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
		return
	case is(a, "no") && !t.optOut:
		c.err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
		return
	case is(a, "yes"):
		t.caching = 'y'
	case is(a, "no"):
		t.caching = 'n'
	default:
		c.syntax()
		return
	}
	c.ok()
}

// afterCaching ends the effect of CLIENT CACHING with the command behind it.
func (c *call) afterCaching(t *tracker) {
	if !c.s.inMulti && (c.cmd == nil || c.cmd.Name != "client|caching") {
		t.caching = 0
	}
}

func cmdClientGetredir(c *call) {
	if t := c.s.tracker.Load(); t != nil {
		c.int(t.redirect)
		return
	}
	c.int(-1)
}

func cmdClientTrackinginfo(c *call) {
	t := c.s.tracker.Load()
	flags := []string{"off"}
	redirect := int64(-1)
	var prefixes [][]byte
	if t != nil {
		flags[0], redirect, prefixes = "on", t.redirect, t.prefixes
		add := func(on bool, name string) {
			if on {
				flags = append(flags, name)
			}
		}
		add(t.broadcast, "bcast")
		add(t.optIn, "optin")
		add(t.optIn && t.caching == 'y', "caching-yes")
		add(t.optOut, "optout")
		add(t.optOut && t.caching == 'n', "caching-no")
		add(t.noLoop, "noloop")
		add(t.broken.Load(), "broken_redirect")
	}
	c.mapHead(3)
	c.str("flags")
	c.setHead(len(flags))
	for _, f := range flags {
		c.str(f)
	}
	c.str("redirect")
	c.int(redirect)
	c.str("prefixes")
	c.array(len(prefixes))
	for _, p := range prefixes {
		c.bulk(p)
	}
}
