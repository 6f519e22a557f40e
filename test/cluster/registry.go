package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/sirupsen/logrus"
)

// registry serves the distribution project's registry from a directory.
func registry() {
	fs := flag.NewFlagSet("registry", flag.ExitOnError)
	dir := fs.String("dir", "", "directory of the images (required)")
	listen := fs.String("listen", "127.0.0.1:0", "address")
	addressFile := fs.String("address-file", "", "file that gets the address once the registry listens")
	htpasswd := fs.String("htpasswd", "", "htpasswd file with bcrypt hashes: asks for basic authentication")
	cert := fs.String("tls-cert", "", "certificate file: serves TLS")
	key := fs.String("tls-key", "", "key file of the certificate")
	_ = fs.Parse(os.Args[1:])
	if *dir == "" || fs.NArg() > 0 || (*cert == "") != (*key == "") {
		fs.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	logrus.SetOutput(os.Stderr)
	logrus.SetLevel(logrus.WarnLevel)
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"filesystem":  configuration.Parameters{"rootdirectory": *dir},
			"delete":      configuration.Parameters{"enabled": true},
			"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
		},
		Catalog: configuration.Catalog{MaxEntries: 1000},
	}
	config.HTTP.Secret = rand.Text()
	config.HTTP.RelativeURLs = true
	if *htpasswd != "" {
		config.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": "kubelab", "path": *htpasswd}}
	}

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fail(err)
	}
	server := &http.Server{Handler: handlers.NewApp(ctx, config)}
	fmt.Println(l.Addr())
	if *addressFile != "" {
		if err := writeFile(*addressFile, []byte(l.Addr().String())); err != nil {
			fail(err)
		}
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if *cert != "" {
		err = server.ServeTLS(l, *cert, *key)
	} else {
		err = server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		fail(err)
	}
}

// writeFile writes a file so that a reader finds all of it or nothing.
func writeFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
