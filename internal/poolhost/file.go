package poolhost

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A File is a configuration file that was found valid, and the contents of the certificates that
// it names.
type File struct {
	poolfile.File

	path, password string
	tls            map[string]poolTLS // by the name of the pool
}

// Read reads and checks the file at path, without connecting to a server. password is for clients
// of Redis pools that set none themselves. The File has its warnings beside an error, too. An error
// matches [ErrConfig].
func Read(path, password string) (*File, error) {
	file := &File{path: path, password: password, tls: make(map[string]poolTLS)}
	text, err := os.ReadFile(path)
	if err != nil {
		return file, failure(ErrConfig, fmt.Errorf("pools: %w", err))
	}
	if file.File, err = poolfile.Parse(path, text); err != nil {
		return file, failure(ErrConfig, err)
	}
	var errs []error
	for i := range file.Pools {
		if err := file.readUsers(&file.Pools[i]); err != nil {
			errs = append(errs, err)
			continue
		}
		p := file.Pools[i]
		t, err := readTLS(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, p.Line, err))
		}
		file.tls[p.Name] = t
		if p.Redis {
			for _, l := range p.Listen {
				if err := explainExposure(p.Name, clientsOf(p, password).CheckListen(l.Network, l.Address)); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %w", path, p.Line, err))
				}
			}
		}
		if p.Reuseport {
			file.Warnings = append(file.Warnings, fmt.Sprintf("%s:%d: pool %q: reuseport is not supported and has no effect", path, p.Line, p.Name))
		}
	}
	if len(errs) > 0 {
		return file, failure(ErrConfig, errors.Join(errs...))
	}
	return file, nil
}

// readUsers reads the ACL file of a pool that has one.
func (f *File) readUsers(p *poolfile.Pool) error {
	if p.ACLFile == "" {
		return nil
	}
	text, err := os.ReadFile(p.ACLFile)
	if err != nil {
		return fmt.Errorf("%s:%d: pool %q: %w", f.path, p.Line, p.Name, err)
	}
	users, scripted, err := poolfile.ParseACLFile(p.ACLFile, text)
	if err != nil {
		return err
	}
	if p.RedisAuth != "" && slices.ContainsFunc(users, func(u poolfile.User) bool { return u.Name == "default" }) {
		return fmt.Errorf("%s:%d: pool %q: %s has the user \"default\", but directive \"redis_auth\" sets the password of that user", f.path, p.Line, p.Name, p.ACLFile)
	}
	p.Users = users
	for _, name := range scripted {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: pool %q: user %q may run scripts, and the pool checks only the keys that these declare; -@scripting forbids scripts", p.ACLFile, p.Name, name))
	}
	return nil
}

// explainExposure adds to an error that matches [server.ErrExposed] where a password can be set.
func explainExposure(pool string, err error) error {
	switch {
	case errors.Is(err, server.ErrExposed):
		return fmt.Errorf("pool %q: %w: redis_auth or users in the file, or --password", pool, err)
	case err != nil:
		return fmt.Errorf("pool %q: %w", pool, err)
	}
	return nil
}

// Password returns the password for clients of pools that set none.
func (f *File) Password() string { return f.password }
