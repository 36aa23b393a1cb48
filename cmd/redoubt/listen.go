package main

import (
	"context"
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
	"github.com/redoubt-go/redoubt/internal/dashboard/served"
	"github.com/redoubt-go/redoubt/internal/handover"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A frontend is what the clients of one back end see: the addresses, their certificates and the users.
type frontend struct {
	listen  []string
	tls     certs.Files
	aclFile string

	source    *certs.Source // nil: no address has TLS
	listeners []net.Listener
}

func (f *frontend) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.listen, "listen", []string{"127.0.0.1:6380"}, "`addresses` for Redis clients, separated by commas or each with its own --listen: host:port, tls://host:port, unix:/path or tls://unix:/path; an address that other machines can reach needs a password")
	flags.StringVar(&f.tls.Cert, "tls-cert-file", "", "`file` with the certificate of the tls:// addresses and the chain to its authority, in PEM; the server reads it again when it changes and on SIGHUP")
	flags.StringVar(&f.tls.Key, "tls-key-file", "", "`file` with the key of that certificate, in PEM")
	flags.StringVar(&f.tls.CA, "tls-ca-cert-file", "", "`file` with the authorities that sign clients' certificates, in PEM; with it clients of the tls:// addresses need a certificate")
	flags.StringVar(&f.aclFile, "aclfile", "", "`file` with users and their rights, in the format of Redis' ACL files: a line \"user name rules\" for each; the server reads it again on SIGHUP")
}

// readUsers returns the rules of the users in the file, and logs which of them may do more than their rules say.
func (f *frontend) readUsers(remote bool, log *slog.Logger) (map[string]string, error) {
	if f.aclFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	text, err := os.ReadFile(f.aclFile)
	if err != nil {
		return nil, usagef("aclfile: %w", err)
	}
	rules, scripted, err := acl.ParseFile(f.aclFile, string(text))
	if err != nil {
		return nil, usagef("aclfile: %w", err)
	}
	if len(scripted) > 0 && remote {
		log.Warn("users may run scripts, and only the declared keys of scripts are checked; -@scripting forbids scripts",
			slog.Any("users", scripted), slog.String("file", f.aclFile))
	}
	return rules, nil
}

// tlsAddress is what an address with TLS begins with.
const tlsAddress = "tls://"

// check refuses invalid addresses, and files that are missing or have no effect.
func (f *frontend) check() error {
	var errs []error
	if len(f.listen) == 0 {
		errs = append(errs, errors.New("listen is empty; want host:port, tls://host:port, unix:/path or tls://unix:/path"))
	}
	encrypted := false
	for _, a := range f.listen {
		rest, isTLS := strings.CutPrefix(a, tlsAddress)
		encrypted = encrypted || isTLS
		if err := listenAddress("listen", rest); err != nil || rest == "" {
			errs = append(errs, errors.New("listen has a URL, a user or an empty address; want host:port, tls://host:port, unix:/path or tls://unix:/path"))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch given := f.tls != (certs.Files{}); {
	case encrypted && (f.tls.Cert == "" || f.tls.Key == ""):
		return errors.New("listen has an address with tls://, which needs --tls-cert-file and --tls-key-file")
	case given && !encrypted:
		return errors.New("tls-cert-file, tls-key-file and tls-ca-cert-file have no effect: no address of --listen begins with tls://")
	}
	return nil
}

// readTLS reads the certificates, if an address needs them.
func (f *frontend) readTLS() error {
	if f.tls.Cert == "" {
		return nil
	}
	set, err := certs.Read(f.tls)
	if err != nil {
		return usagef("tls-cert-file, tls-key-file, tls-ca-cert-file: %w", err)
	}
	f.source = certs.NewSource(f.tls, set)
	return nil
}

// open listens on all addresses.
func (f *frontend) open(srv *server.Server) error {
	for _, a := range f.listen {
		rest, isTLS := strings.CutPrefix(a, tlsAddress)
		l, err := srv.Listen(network(rest))
		switch {
		case errors.Is(err, server.ErrExposed):
			err = fail(exitUsage, err)
		case err != nil:
			err = fail(exitUnavailable, err)
		}
		if err != nil {
			f.close()
			return err
		}
		if isTLS {
			l = encryptedListener{tls.NewListener(l, f.source.Config())}
		}
		f.listeners = append(f.listeners, l)
	}
	return nil
}

// reserve opens all addresses for a later open.
func (f *frontend) reserve(ctx context.Context, sockets *handover.Sockets) error {
	for _, a := range f.listen {
		network, address := network(strings.TrimPrefix(a, tlsAddress))
		if err := sockets.Reserve(ctx, network, address); err != nil {
			return err
		}
	}
	return nil
}

// An encryptedListener is a listener with TLS.
type encryptedListener struct{ net.Listener }

// close closes the listeners that no server has closed.
func (f *frontend) close() {
	for _, l := range f.listeners {
		_ = l.Close()
	}
}

// serve lets clients in. ended gets the error of a listener that ends by itself.
func (f *frontend) serve(srv *server.Server) (ended <-chan error) {
	errs := make(chan error, len(f.listeners))
	for i, l := range f.listeners {
		go func() {
			if err := srv.Serve(l); !errors.Is(err, server.ErrClosed) {
				errs <- failf(exitUnavailable, "listening on %s ended: %w", f.listen[i], err)
			}
		}()
	}
	return errs
}

// url returns where clients come in at the first address.
func (f *frontend) url() string {
	_, encrypted := f.listeners[0].(encryptedListener)
	return served.URL(f.listeners[0].Addr(), encrypted)
}

// addresses returns the addresses of all listeners, for the log.
func (f *frontend) addresses() string {
	var all []string
	for _, l := range f.listeners {
		a := l.Addr().String()
		if _, isTLS := l.(encryptedListener); isTLS {
			a = tlsAddress + a
		}
		all = append(all, a)
	}
	return strings.Join(all, ", ")
}

// follow has certificates read again when their files change, until end is called.
func (f *frontend) follow(log *slog.Logger) (end func()) {
	if f.source == nil {
		return func() {}
	}
	return f.source.Follow(log)
}

// reload reads the certificates and the users again, and logs the result. Invalid files change nothing.
func (f *frontend) reload(srv *server.Server, back *backend, patience time.Duration, log *slog.Logger) {
	if f.source == nil && f.aclFile == "" {
		log.Info("SIGHUP: there is nothing to reload: neither --tls-cert-file nor --aclfile is set")
	}
	if f.source != nil {
		f.source.Reload(log)
	}
	if f.aclFile == "" {
		return
	}
	rules, err := f.readUsers(back.remote(), log)
	if err == nil {
		err = srv.SetUsers(rules, patience)
	}
	if err != nil {
		log.Error("users not reloaded: they stay as they are", slog.Any("error", err))
		return
	}
	log.Info("reloaded the users", slog.String("file", f.aclFile), slog.Int("users", len(rules)))
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
