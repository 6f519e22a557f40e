package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// Authenticator decides who may use the server.
type Authenticator interface {
	// Authenticate says whether password is user's. It may be called
	// concurrently and should take as long for an unknown user as for a known one.
	Authenticate(ctx context.Context, user, password string) bool
}

const (
	maxUsers = 10_000
	// bcrypt's cost is exponential: above this one login takes seconds.
	minCost, maxCost = bcrypt.MinCost, 14
	// hashCost is what HashPassword uses.
	hashCost = 11
	// hashers bounds how many passwords are hashed at once, so that failed
	// logins cannot take every core.
	hashers = 2
)

// Users authenticates against a set of bcrypt hashes.
type Users struct {
	hashes map[string][]byte
	decoy  []byte // compared with for unknown users
	hash   chan struct{}
}

// ParseUsers reads lines of "user:bcrypt-hash", as `htpasswd -B` writes them.
// Empty lines and lines that begin with # are skipped; any other kind of hash
// is an error, which never repeats the line.
func ParseUsers(r io.Reader) (*Users, error) {
	u := &Users{hashes: map[string][]byte{}, hash: make(chan struct{}, hashers)}
	cost := minCost
	err := eachLine(r, func(n int, line string) error {
		user, hash, ok := strings.Cut(line, ":")
		if !ok || user == "" {
			return fmt.Errorf("line %d is not of the form user:hash", n)
		}
		c, err := bcrypt.Cost([]byte(hash))
		if err != nil || len(hash) != 60 {
			return fmt.Errorf("line %d: the hash is not bcrypt's (make it with: htpasswd -B)", n)
		}
		if c > maxCost {
			return fmt.Errorf("line %d: bcrypt cost %d is more than %d", n, c, maxCost)
		}
		if _, dup := u.hashes[user]; dup {
			return fmt.Errorf("line %d: a user is named twice", n)
		}
		if len(u.hashes) == maxUsers {
			return fmt.Errorf("more than %d users", maxUsers)
		}
		u.hashes[user] = []byte(hash)
		cost = max(cost, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(u.hashes) == 0 {
		return nil, errors.New("no users")
	}
	if u.decoy, err = bcrypt.GenerateFromPassword([]byte(rand.Text()), cost); err != nil {
		return nil, err
	}
	return u, nil
}

// HashPassword makes a line for a users file.
func HashPassword(user, password string) (string, error) {
	if user == "" || strings.ContainsAny(user, ":\r\n") || strings.TrimSpace(user) != user || user[0] == '#' {
		return "", errors.New("a user name is not empty, has no colon or line break, and does not begin with #")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), hashCost)
	if err != nil {
		return "", err
	}
	return user + ":" + string(hash), nil
}

// Authenticate implements Authenticator.
func (u *Users) Authenticate(ctx context.Context, user, password string) bool {
	if len(user) > 256 || len(password) > 1024 {
		return false
	}
	select {
	case u.hash <- struct{}{}:
		defer func() { <-u.hash }()
	case <-ctx.Done():
		return false
	}
	hash, exists := u.hashes[user]
	if !exists {
		hash = u.decoy
	}
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil && exists
}
