package server

import (
	"net"
	"strconv"
	"time"
)

// outerSettings are settings that CONFIG reads and sets, and that are this server's own.
type outerSettings = interface {
	Settings() map[string]string
	SetSettings(values map[string]string) (name string, err error)
}

// ownSettings are the settings of CONFIG that a server has in front of an engine: requirepass and timeout, and port and
// maxclients to read.
type ownSettings struct{ srv *Server }

// Settings returns the values now. As on Redis, requirepass is not what ACL SETUSER sets, and a timeout has whole seconds.
func (o ownSettings) Settings() map[string]string {
	seconds := (o.srv.idleTimeout() + time.Second - 1) / time.Second
	return map[string]string{
		"requirepass": *o.srv.required.Load(),
		"port":        strconv.Itoa(o.srv.port()),
		"maxclients":  strconv.Itoa(o.srv.opts.MaxClients),
		"timeout":     strconv.FormatInt(int64(seconds), 10),
	}
}

// port returns the lowest TCP port that the server listens on, 0 for none.
func (s *Server) port() (least int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if a, ok := l.Addr().(*net.TCPAddr); ok && (least == 0 || a.Port < least) {
			least = a.Port
		}
	}
	return least
}

// SetSettings changes some of the settings, all or none. The engine has checked that timeout is a number of seconds.
func (o ownSettings) SetSettings(values map[string]string) (name string, err error) {
	if password, ok := values["requirepass"]; ok {
		if err := o.srv.requirePassword(password); err != nil {
			return "requirepass", err
		}
	}
	if text, ok := values["timeout"]; ok {
		seconds, _ := strconv.Atoi(text)
		o.srv.idle.Store(int64(time.Duration(seconds) * time.Second))
	}
	return "", nil
}

// idleTimeout is [Options.IdleTimeout], or what CONFIG SET has made of it.
func (s *Server) idleTimeout() time.Duration { return time.Duration(s.idle.Load()) }
