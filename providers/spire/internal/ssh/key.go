package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Key is a private key that opens a way.
type Key struct {
	signer ssh.Signer
	file   string // for messages
}

// maxKey bounds a key file, in bytes; an RSA key of 16384 bits has 13 KiB.
const maxKey = 64 << 10

// ReadKey reads a private key in the form of OpenSSH or in PEM (PKCS #1, PKCS #8, SEC 1). As ssh(1), it refuses a key of
// the user's own that others can read.
func ReadKey(file string) (*Key, error) {
	signer, err := readKey(file)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", file, err)
	}
	return &Key{signer, file}, nil
}

func readKey(file string) (ssh.Signer, error) {
	// A pipe would block, and has nothing for those who read it later in the same run.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is in the caller's words
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("%w: user %d runs this and must be able to read it", err, os.Getuid())
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: the key must be staged before each run, also before a destroy", err)
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %04o, so others than its owner can read it: chmod 600", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxKey {
		return nil, fmt.Errorf("it is larger than %d bytes, so it is no key", maxKey)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nil
	case errors.As(err, &locked):
		return nil, errors.New("it is encrypted, and there is nobody to ask for the passphrase: give a key without one (ssh-keygen -p -N '' -f COPY changes a copy)")
	case isPublic(data):
		return nil, errors.New("it is a public key: name the private one")
	case bytes.HasPrefix(data, []byte("PuTTY-User-Key-File")):
		return nil, errors.New("it is a key of PuTTY: export it in the form of OpenSSH")
	}
	// What the parser says may quote the file.
	return nil, errors.New("it is no private key in the form of OpenSSH or in PEM, or of a type that is not supported (ed25519, ecdsa and rsa are)")
}

func isPublic(data []byte) bool {
	_, _, _, _, err := ssh.ParseAuthorizedKey(data)
	return err == nil
}
