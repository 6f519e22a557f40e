package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// shutdownGrace is how long requests in flight may take after the context ends.
const shutdownGrace = 30 * time.Second

// Config is what `yuba state serve` is told.
type Config struct {
	// Listen is "host:port"; port 0 lets the system choose one.
	Listen string
	// Dir holds the states.
	Dir string
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	// UsersFile has the users, as ParseUsers reads them; without it everyone
	// may use the server.
	UsersFile string
	// AccessFile says who may use which state, as ParseAccess reads it; without
	// it every user may use all.
	AccessFile string
	// AllowAnonymous allows that on an address other than loopback, and any
	// Host name on loopback.
	AllowAnonymous bool
	// Retain and MaxStateBytes are as in Options.
	Retain        int
	MaxStateBytes int64
	// Log gets one line per request; none when nil.
	Log *slog.Logger
	// Ready, when set, gets the base URL and the address as soon as
	// connections are accepted.
	Ready func(baseURL string, addr net.Addr)
}

// ListenAndServe serves until ctx ends, then lets the requests in flight end
// and returns nil.
func ListenAndServe(ctx context.Context, cfg Config) error {
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		return errors.New("a TLS certificate needs its key, and a key its certificate")
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := Options{Dir: cfg.Dir, Retain: cfg.Retain, MaxStateBytes: cfg.MaxStateBytes, Log: log}
	if cfg.UsersFile != "" {
		users, err := readFile("users", cfg.UsersFile, ParseUsers)
		if err != nil {
			return err
		}
		opts.Auth = users
	}
	if cfg.AccessFile != "" {
		access, err := readFile("access", cfg.AccessFile, ParseAccess)
		if err != nil {
			return err
		}
		opts.Access = access
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("state server: %w", err)
	}
	defer ln.Close()
	tcp, ok := ln.Addr().(*net.TCPAddr)
	local := ok && tcp.IP.IsLoopback()
	if opts.Auth == nil && !local && !cfg.AllowAnonymous {
		return fmt.Errorf("state server: %s is not a loopback address, and without users everyone who reaches it could read and write the states: name a users file (-users), or allow it (-allow-anonymous)", cfg.Listen)
	}
	srv, err := New(opts)
	if err != nil {
		return err
	}
	defer srv.Close()

	var handler http.Handler = srv
	if opts.Auth == nil && !cfg.AllowAnonymous {
		handler = localOnly(srv)
	}
	hs := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	scheme := "http"
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return fmt.Errorf("state server: %w", err)
		}
		hs.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		scheme = "https"
	} else if !local && opts.Auth != nil {
		log.Warn("passwords and states travel in clear: use TLS here or in front of this server")
	}
	base := scheme + "://" + ln.Addr().String()
	log.Info("serving states", "url", base, "dir", cfg.Dir, "login", opts.Auth != nil)
	if cfg.Ready != nil {
		cfg.Ready(base, ln.Addr())
	}

	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		stopped <- hs.Shutdown(sctx)
	})
	if scheme == "https" {
		err = hs.ServeTLS(ln, "", "")
	} else {
		err = hs.Serve(ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("state server: %w", err)
	}
	if err := <-stopped; err != nil {
		hs.Close()
		return fmt.Errorf("state server: requests were still running after %v: %w", shutdownGrace, err)
	}
	return nil
}

// localOnly refuses a Host that is a name other than localhost: a web page whose
// name was made to resolve to loopback sends such a one.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host != "localhost" && net.ParseIP(host) == nil {
			write(w, r, says(http.StatusForbidden, "this server has no login and answers to localhost and addresses only"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
