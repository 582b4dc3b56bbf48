package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/watch"
)

// serveSDS opens the socket that the bootstrap's cluster sds-grpc leads to, before Envoy starts. Only the agent's own user
// may connect. Where it cannot be opened, the bootstrap has no such cluster, and discovery is told so.
func (p *proxy) serveSDS() (stop func(), err error) {
	p.sds = &sds.Server{Log: p.log}
	listener, err := status.ListenOwner(p.params.SecretsSocket)
	if err != nil && p.params.Discovery.TLS != nil {
		return nil, fmt.Errorf("serve the certificates for discovery's mutual TLS: %w", err)
	}
	if err != nil {
		p.log.Warn("go on without SDS", "error", err)
		p.params.SecretsSocket, p.params.Metadata.AgentSDS = "", node.SDSNone
		return func() {}, nil
	}
	server := p.sds.NewHTTPServer(p.log)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("serve SDS", "error", err)
		}
	}()
	return func() { server.Close() }, nil
}

// tellSecrets gives Envoy by SDS the workload's certificate and those of the files that it asks for, and again when they
// change. A set that Envoy would refuse, such as one that is half written, is not told, and a secret whose files are gone is not
// taken back: an Envoy that is started again then has the last good ones.
func (p *proxy) tellSecrets(ctx context.Context, ticks <-chan struct{}) {
	own, files := sds.Secrets{}, sds.Secrets{}
	f := fileWatch{ticks: make(chan struct{}, 1), log: p.log}
	defer f.stop()
	for {
		if secrets, err := p.settings.readSecrets(time.Now()); err == nil && secrets.Cover(own) {
			own = secrets
		} // else it is told with the other faults of the certificates
		names := p.sds.Asked()
		f.follow(ctx, names)
		var seen []sds.Seen
		files, seen = sds.OfFiles(names, files, cert.ReadFile, time.Now())
		p.tellFiles(seen)
		all := maps.Clone(files)
		maps.Copy(all, own)
		p.sds.Set(all)
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-f.ticks:
		case <-p.sds.AskedCh():
		}
	}
}

// tellFiles tells of files that Envoy asks for by SDS, in the log when something is new and on the status port always.
func (p *proxy) tellFiles(seen []sds.Seen) {
	before := map[cert.Files]sds.Seen{}
	if last := p.servedFiles.Load(); last != nil {
		for _, s := range *last {
			before[s.Files] = s
		}
	}
	for _, s := range seen {
		last, had := before[s.Files]
		switch {
		case s.Fault != "" && s.Fault != last.Fault:
			p.log.Warn("a certificate that discovery names cannot be used, other hosts are not affected", "files", s.Files.Paths(), "error", s.Fault)
		case s.Fault == "" && (!had || last.Fault != "" || last.Info.Serial != s.Info.Serial):
			p.log.Info("certificate served", "files", s.Files.Paths(), "serial", s.Info.Serial)
		}
	}
	p.servedFiles.Store(&seen)
}

// toldFiles are those files for the status port, but for paths that others tell of.
func (p *proxy) toldFiles(others []status.Certificate) (out []status.Certificate) {
	seen := p.servedFiles.Load()
	if seen == nil {
		return nil
	}
	for _, s := range *seen {
		path := s.Files.Paths()[0]
		if slices.ContainsFunc(slices.Concat(others, out), func(c status.Certificate) bool { return c.Path == path }) {
			continue
		}
		c := status.Certificate{Path: path, Serial: s.Info.Serial, Fault: s.Fault}
		if ends := s.Info.NotAfter; !ends.IsZero() {
			c.NotAfter = &ends
		}
		out = append(out, c)
	}
	return out
}

// fileWatch ticks when one of the files that Envoy asks for has changed.
type fileWatch struct {
	ticks chan struct{}
	log   *slog.Logger

	paths []string
	end   func()
}

// follow watches the files of these secrets from now on. A new watch ticks once it stands, so that no change is lost.
func (f *fileWatch) follow(ctx context.Context, names []string) {
	var paths []string
	for _, name := range names {
		files, _ := sds.FilesOf(name) // nobody asks for others
		paths = append(paths, files.Paths()...)
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); slices.Equal(paths, f.paths) {
		return
	}
	f.stop()
	f.paths = paths
	if len(paths) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	f.end = func() {
		cancel()
		<-done
	}
	watcher := watch.Watcher{Paths: paths, Quiet: 20 * time.Millisecond, Ceiling: time.Second, Recheck: recheck, Log: f.log}
	go func() {
		defer close(done)
		if err := watcher.Run(ctx, f.ticks); err != nil && ctx.Err() == nil {
			f.log.Error("watch files of secrets", "error", err)
		}
	}()
}

func (f *fileWatch) stop() {
	if f.end != nil {
		f.end()
		f.end = nil
	}
}

// readSecrets reads the workload's certificate. What is missing is left out.
func (s *settings) readSecrets(now time.Time) (sds.Secrets, error) {
	contents, err := s.controlPlaneCertificates().Read()
	if err != nil {
		return nil, err
	}
	if _, err := contents.Check(now); err != nil {
		return nil, err
	}
	return sds.NewSecrets(contents.Chain, contents.Key, contents.Roots), nil
}
