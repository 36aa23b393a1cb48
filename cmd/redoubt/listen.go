package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/certs"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A door is where the clients of one back end come in: its addresses, its certificates and its users.
type door struct {
	listen  []string
	tls     certs.Files
	aclFile string

	source    *certs.Source // nil: no address has TLS
	listeners []net.Listener
}

func (d *door) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&d.listen, "listen", []string{"127.0.0.1:6380"}, "`addresses` for Redis clients, separated by commas or each with its own --listen: host:port, tls://host:port or unix:/path; an address that other machines can reach needs a password")
	flags.StringVar(&d.tls.Cert, "tls-cert-file", "", "`file` with the certificate of the tls:// addresses and the chain to its authority, in PEM; read again when it changes and on SIGHUP")
	flags.StringVar(&d.tls.Key, "tls-key-file", "", "`file` with the key of that certificate, in PEM")
	flags.StringVar(&d.tls.CA, "tls-ca-cert-file", "", "`file` with the authorities of clients' certificates, in PEM: clients of the tls:// addresses then need a certificate; empty: they need none")
	flags.StringVar(&d.aclFile, "aclfile", "", "`file` with users and their rights, in the format of Redis' ACL files: a line \"user name rules\" for each; read again on SIGHUP")
}

// readUsers returns the rules of the users in the file, and logs which of them may do more than their rules say.
func (d *door) readUsers(back *backend, log *slog.Logger) (map[string]string, error) {
	if d.aclFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	text, err := os.ReadFile(d.aclFile)
	if err != nil {
		return nil, usagef("aclfile: %w", err)
	}
	rules, scripted, err := acl.ParseFile(d.aclFile, string(text))
	if err != nil {
		return nil, usagef("aclfile: %w", err)
	}
	if len(scripted) > 0 && back.remote() {
		log.Warn("users may run scripts, of which only the declared keys are checked; -@scripting forbids scripts",
			slog.Any("users", scripted), slog.String("file", d.aclFile))
	}
	return rules, nil
}

// tlsAddress is what an address with TLS begins with.
const tlsAddress = "tls://"

// check refuses addresses that are none, and files that are missing or have no effect.
func (d *door) check() error {
	var errs []error
	if len(d.listen) == 0 {
		errs = append(errs, errors.New("listen is empty; want host:port, tls://host:port or unix:/path"))
	}
	encrypted := false
	for _, a := range d.listen {
		rest, isTLS := strings.CutPrefix(a, tlsAddress)
		encrypted = encrypted || isTLS
		if err := listenAddress("listen", rest); err != nil || rest == "" || isTLS && strings.HasPrefix(rest, "unix:") {
			errs = append(errs, errors.New("listen has a URL, a user or an empty address; want host:port, tls://host:port or unix:/path"))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch given := d.tls != (certs.Files{}); {
	case encrypted && (d.tls.Cert == "" || d.tls.Key == ""):
		return errors.New("listen has an address with tls://, which needs --tls-cert-file and --tls-key-file")
	case given && !encrypted:
		return errors.New("tls-cert-file, tls-key-file and tls-ca-cert-file have no effect: no address of --listen begins with tls://")
	}
	return nil
}

// readTLS reads the certificates, if an address needs them.
func (d *door) readTLS() error {
	if d.tls.Cert == "" {
		return nil
	}
	set, err := certs.Read(d.tls)
	if err != nil {
		return usagef("tls-cert-file, tls-key-file, tls-ca-cert-file: %w", err)
	}
	d.source = certs.NewSource(d.tls, set)
	return nil
}

// open listens on all addresses.
func (d *door) open(srv *server.Server) error {
	for _, a := range d.listen {
		rest, isTLS := strings.CutPrefix(a, tlsAddress)
		l, err := srv.Listen(network(rest))
		switch {
		case errors.Is(err, server.ErrExposed):
			err = fail(exitUsage, err)
		case err != nil:
			err = fail(exitUnavailable, err)
		}
		if err != nil {
			d.close()
			return err
		}
		if isTLS {
			l = encryptedListener{tls.NewListener(l, d.source.Config())}
		}
		d.listeners = append(d.listeners, l)
	}
	return nil
}

// An encryptedListener is a listener with TLS.
type encryptedListener struct{ net.Listener }

// close closes the listeners that no server has closed.
func (d *door) close() {
	for _, l := range d.listeners {
		_ = l.Close()
	}
}

// serve lets clients in. ended gets the error of a listener that ends by itself.
func (d *door) serve(srv *server.Server) (ended <-chan error) {
	errs := make(chan error, len(d.listeners))
	for i, l := range d.listeners {
		go func() {
			if err := srv.Serve(l); !errors.Is(err, server.ErrClosed) {
				errs <- failf(exitUnavailable, "listening on %s ended: %w", d.listen[i], err)
			}
		}()
	}
	return errs
}

// addresses are all addresses that are listened on, for the log.
func (d *door) addresses() string {
	var all []string
	for _, l := range d.listeners {
		a := l.Addr().String()
		if _, isTLS := l.(encryptedListener); isTLS {
			a = tlsAddress + a
		}
		all = append(all, a)
	}
	return strings.Join(all, ", ")
}

// follow has certificates read again when their files change, until end is called.
func (d *door) follow(log *slog.Logger) (end func()) {
	if d.source == nil {
		return func() {}
	}
	return d.source.Follow(log)
}

// reload reads the certificates and the users again, and logs the result. Files that are wrong change nothing.
func (d *door) reload(srv *server.Server, back *backend, patience time.Duration, log *slog.Logger) {
	if d.source == nil && d.aclFile == "" {
		log.Info("SIGHUP: there is nothing to reload: neither --tls-cert-file nor --aclfile is set")
	}
	if d.source != nil {
		d.source.Reload(log)
	}
	if d.aclFile == "" {
		return
	}
	rules, err := d.readUsers(back, log)
	if err == nil {
		err = srv.SetUsers(rules, patience)
	}
	if err != nil {
		log.Error("users not reloaded: they stay as they are", slog.Any("error", err))
		return
	}
	log.Info("reloaded the users", slog.String("file", d.aclFile), slog.Int("users", len(rules)))
}

// network splits an address into the arguments of net.Listen.
func network(listen string) (network, address string) {
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", listen
}

// listenAddress refuses a URL as an address to listen on: the error of net.Listen would show its
// password.
func listenAddress(flag, address string) error {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if strings.Contains(path, "://") || mayBeURL(strings.TrimPrefix(path, "//")) || !isUnix && strings.Contains(path, "@") {
		return fmt.Errorf("%s is a URL, or has a user; want host:port", flag)
	}
	return nil
}
