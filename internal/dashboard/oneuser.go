package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
)

// A oneUser is the only user of a source, who may see everything.
type oneUser struct {
	name   string
	sum    [sha256.Size]byte
	open   bool
	writes bool
}

// OneUser returns a single user, with all rights. Without a password the user needs none.
func OneUser(name, password string, writes bool) Users { //nolint:revive // it is the user's property
	return &oneUser{name: name, sum: sha256.Sum256([]byte(password)), open: password == "", writes: writes}
}

// Login implements Users.
func (u *oneUser) Login(name, password string) (User, bool) {
	sum := sha256.Sum256([]byte(password))
	right := subtle.ConstantTimeCompare(sum[:], u.sum[:])&subtle.ConstantTimeCompare([]byte(name), []byte(u.name)) == 1
	if !u.open && !right {
		return nil, false
	}
	return u, !u.open
}

// Open implements Users.
func (u *oneUser) Open() User {
	if u.open {
		return u
	}
	return nil
}

// Name implements User.
func (u *oneUser) Name() string { return u.name }

// May implements User.
func (u *oneUser) May(...string) bool { return true }

// Writes implements User.
func (u *oneUser) Writes() bool { return u.writes }
