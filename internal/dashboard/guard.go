package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// headers are sent with every answer. The page loads its own files only, and runs no code from them but
// modules.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// A refusal is an answer other than 200.
type refusal struct {
	status int
	text   string
	login  bool // the browser may ask for a password
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, text string) *refusal { return &refusal{status: status, text: text} }

// checkHost refuses a Host that an attacker's DNS could have pointed at this server: it takes loopback
// names, the address that the request came to, and the hosts of the options.
func (h *Handler) checkHost(r *http.Request) *refusal {
	name := hostname(r.Host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(h.hosts, name) {
		return nil
	}
	if ip, err := netip.ParseAddr(name); err == nil && (ip.IsLoopback() || ip.Unmap() == localIP(r)) {
		return nil
	}
	return refuse(http.StatusForbidden, "the dashboard does not answer under the host "+quoted(name)+": allow it with Options.Hosts, or --http-host of redoubt serve")
}

// hostname returns a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// localIP returns the address that a request came to, or the zero address.
func localIP(r *http.Request) netip.Addr {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}

// isLocal reports whether only this machine can have sent the request.
func (h *Handler) isLocal(r *http.Request) bool {
	if h.opts.Exposed {
		return false
	}
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return true
	}
	return localIP(r).IsLoopback()
}

// checkSite refuses requests that another site has made the browser send. A link from another site may open
// the page itself.
func (h *Handler) checkSite(r *http.Request, api bool) *refusal { //nolint:revive // two rules
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return refuse(http.StatusForbidden, "the request comes from another site")
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); api && site != "" && site != "same-origin" && site != "none" {
		return refuse(http.StatusForbidden, "the request comes from another site")
	}
	if err := h.cross.Check(r); err != nil {
		return refuse(http.StatusForbidden, "the request comes from another site")
	}
	return nil
}

// errUnguarded is the answer where people would need no password.
var errUnguarded = refuse(http.StatusForbidden,
	"other machines can reach this address, and nobody would need a password: set one, or listen on 127.0.0.1")

// errNothing is the answer where there is nothing to show, to everybody.
var errNothing = refuse(http.StatusServiceUnavailable, "there is nothing to show: no server and no pool is open here")

// admitted returns the sources that the request's user may look at, and the user of each.
func (h *Handler) admitted(r *http.Request) (list []*source, users []User, err *refusal) {
	name, password, given := r.BasicAuth()
	if name == "" {
		name = "default"
	}
	passwords, local, all := false, h.isLocal(r), h.current()
	if len(all) == 0 {
		return nil, nil, errNothing
	}
	for _, s := range all {
		open := s.Users.Open()
		var u User
		if given {
			var guarded bool
			if u, guarded = s.Users.Login(name, password); u != nil && !guarded && !local {
				u = nil
			}
		}
		if u == nil && open != nil && local {
			u = open
		}
		passwords = passwords || open == nil
		if u != nil {
			list, users = append(list, s), append(users, u)
		}
	}
	switch {
	case len(list) > 0:
		return list, users, nil
	case !passwords && !given:
		return nil, nil, errUnguarded
	}
	if given {
		h.log.Warn("the dashboard refused a password", "user", name, "client", r.RemoteAddr)
	}
	return nil, nil, &refusal{status: http.StatusUnauthorized, text: "a user and a password are needed", login: true}
}

// answer writes a refusal.
func answer(w http.ResponseWriter, err error, api bool) { //nolint:revive // two forms
	e, ok := errors.AsType[*refusal](err)
	if !ok {
		e = refuse(http.StatusInternalServerError, err.Error())
	}
	if e.login {
		w.Header().Set("WWW-Authenticate", `Basic realm="Redoubt", charset="UTF-8"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	if api {
		writeJSON(w, e.status, map[string]any{"ok": false, "error": e.text})
		return
	}
	http.Error(w, e.text, e.status)
}
