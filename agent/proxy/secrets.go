package proxy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/records"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
)

// secrets serves Envoy by SDS: the workload's certificate, and those in the files of Envoy's subscriptions.
type secrets struct {
	workload cert.Files
	server   *sds.Server
	records  *records.Ring
	log      *slog.Logger
	seen     atomic.Pointer[[]sds.Seen] // the last observation of the files of Envoy's subscriptions

	own, files sds.Secrets // to begin with: of another image of the agent
}

// listen opens the socket of the bootstrap's clusters sds-grpc and agent_records. Only processes of the agent's own user that are not refused
// may connect.
func (s *secrets) listen(c *carriage, slot *envoy.Slot) (stop func(), err error) {
	listener, err := c.listenOwner(secretsSocket, slot, s.log)
	if err != nil {
		return nil, err
	}
	server := s.server.NewHTTPServer(s.log)
	secrets := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == records.Method {
			s.records.ServeHTTP(w, r)
			return
		}
		secrets.ServeHTTP(w, r)
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("SDS no longer served", "err", err)
		}
	})
	return func() {
		c.keep(secretsSocket, listener)
		server.Close()
		serving.Wait()
	}, nil
}

// resume begins with the secrets of another image of the agent: the files may be broken at this moment.
func (s *secrets) resume(c *carriage) {
	s.own, s.files = c.carriedSecrets()
	all := maps.Clone(s.files)
	maps.Copy(all, s.own)
	s.server.Set(all)
}

// follow sends Envoy its secrets, and again when they change, until ctx ends. It does not send a set that Envoy would
// refuse, such as a half-written one, and does not withdraw a secret whose files are gone: so an Envoy that is started
// again has the last good secrets.
func (s *secrets) follow(ctx context.Context, ticks <-chan struct{}) {
	own, files, kept := s.own, s.files, unasked{}
	f := fileWatch{ticks: make(chan struct{}, 1), log: s.log}
	defer f.stop()
	changes := time.NewTimer(recheck)
	defer changes.Stop()
	for {
		now, info, err := s.readOwn(time.Now())
		if err == nil && now.Cover(own) {
			own = now
		} // else the fault is reported with the other faults of the certificates
		names := s.server.Asked()
		f.follow(ctx, names)
		asked, seen := sds.OfFiles(names, files, cert.ReadFile, time.Now())
		kept.keep(asked, files, names, time.Now())
		files = asked
		s.report(seen)
		all := maps.Clone(files)
		maps.Copy(all, own)
		s.server.Set(all)
		changes.Reset(cert.Changes(append(infosOf(seen), info), time.Now(), recheck))
		select {
		case <-ctx.Done():
			return
		case <-changes.C:
		case <-ticks:
		case <-f.ticks:
		case <-s.server.AskedCh():
		}
	}
}

func infosOf(seen []sds.Seen) (out []cert.Info) {
	for _, one := range seen {
		out = append(out, one.Info)
	}
	return out
}

// readOwn reads the workload's certificate. A file that is missing is left out. The leaf is described where it can be read, also of a set that
// cannot be used: it may begin later.
func (s *secrets) readOwn(now time.Time) (sds.Secrets, cert.Info, error) {
	contents, err := s.workload.Read()
	if err != nil {
		return nil, cert.Info{}, err
	}
	info, err := contents.Check(now)
	if err != nil {
		return nil, info, err
	}
	return sds.NewSecrets(contents.Chain, contents.Key, contents.Roots), info, nil
}

// report stores the observations of the files of Envoy's subscriptions for the status port, and logs their changes.
func (s *secrets) report(seen []sds.Seen) {
	before := map[cert.Files]sds.Seen{}
	if last := s.seen.Load(); last != nil {
		for _, one := range *last {
			before[one.Files] = one
		}
	}
	for _, now := range seen {
		last, had := before[now.Files]
		switch {
		case now.Fault != "" && now.Fault != last.Fault:
			s.log.Warn("a certificate that discovery names cannot be used, other hosts are not affected", "files", now.Files.Paths(), "err", now.Fault)
		case now.Fault == "" && (!had || last.Fault != "" || last.Info.Serial != now.Info.Serial):
			s.log.Info("certificate served", "files", now.Files.Paths(), "serial", now.Info.Serial)
		}
	}
	s.seen.Store(&seen)
}

// certificates returns those files for the status port, without the paths that others has already.
func (s *secrets) certificates(others []status.Certificate) (out []status.Certificate) {
	seen := s.seen.Load()
	if seen == nil {
		return nil
	}
	for _, one := range *seen {
		path := one.Files.Paths()[0]
		if slices.ContainsFunc(slices.Concat(others, out), func(c status.Certificate) bool { return c.Path == path }) {
			continue
		}
		out = append(out, status.Certificate{Path: path, Serial: one.Info.Serial, NotAfter: endOf(one.Info), Fault: one.Fault})
	}
	return out
}
