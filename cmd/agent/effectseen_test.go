package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/node"
)

// resolvedProxy returns the proxy of a pod's sidecar with these settings.
func resolvedProxy(t *testing.T, s *settings) *proxy.Proxy {
	t.Helper()
	config := s.config(node.Sidecar, []string{"POD_NAME=p", "POD_NAMESPACE=n"}, slog.New(slog.DiscardHandler))
	p, err := proxy.Resolve(config, proxy.Host{
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Files: fstest.MapFS{
			"labels":      {Data: []byte(`app="of-the-file"`)},
			"annotations": {Data: []byte(`note="of-the-file"`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rendered returns its bootstrap.
func rendered(t *testing.T, s *settings) string {
	t.Helper()
	text, _, err := resolvedProxy(t, s).Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func renderedTLS(t *testing.T, s *settings) string {
	s.controlPlaneAuthPolicy = authMutualTLS
	return rendered(t, s)
}

// refused returns why the proxy does not start.
func refused(t *testing.T, s *settings) string {
	if s.origins["configPath"].Set() {
		s.binaryPath = "/bin/sh" // it exists
	}
	err := resolvedProxy(t, s).Run(t.Context(), proxy.Process{})
	if err == nil {
		t.Fatal("it starts")
	}
	return err.Error()
}

// rotation returns the reaction to a new certificate while Envoy does not answer which certificate it presents.
func rotation(t *testing.T, s *settings) (text string) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		silent := func(context.Context) ([]string, bool) { return nil, false }
		proof := cert.Proof{Never: s.config(node.Sidecar, nil, log).NewEpochs, Presented: silent, Log: log}
		began := time.Now()
		next := cert.Observation{Infos: []cert.Info{{Serial: "03e9"}}}
		if !proof.Taken(t.Context(), next, next) {
			text = fmt.Sprintf("a handover after %s", time.Since(began))
		}
	})
	return text
}

// noEnvoys is a host without an Envoy.
type noEnvoys struct{}

func (noEnvoys) Sends(_, _ netip.AddrPort) (bool, error) { return false, nil }

func (noEnvoys) RefuseOwn(int) error { return nil }

// served returns the ports on which the agent listens.
func served(t *testing.T, s *settings) string {
	for name, port := range map[string]*int{"statusPort": &s.statusPort, "proxyAdminPort": &s.proxyAdminPort} {
		if !s.origins[name].Set() {
			*port = 0 // another program may use the default port
		}
	}
	config := status.Config{Envoys: noEnvoys{}, Envoy: func() http.RoundTripper { return nil }, Log: slog.New(slog.DiscardHandler)}
	stop, err := status.Serve(config, s.config(node.Sidecar, nil, config.Log).Ports, filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	text := ""
	for _, port := range []int{s.statusPort, s.proxyAdminPort} {
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			text += fmt.Sprintf("listens on %d\n", port)
			conn.Close()
		}
	}
	return text
}

// logged returns lines of the agent's own log.
func logged(_ *testing.T, s *settings) string {
	var out bytes.Buffer
	log := newLogger(&out, s.logLevel, s.logFormat)
	log.Debug("told")
	log.Info("told")
	return out.String()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func options(_ *testing.T, s *settings) string {
	return fmt.Sprintf("%+v", s.config(node.Sidecar, nil, nil).Envoy)
}

func supervision(_ *testing.T, s *settings) string {
	return fmt.Sprintf("%+v", s.config(node.Sidecar, nil, nil).Supervision)
}

// replaced returns whether a changed binary replaces the agent: e2e shows that it does.
func replaced(_ *testing.T, s *settings) string {
	return fmt.Sprint(s.config(node.Sidecar, nil, nil).UpgradeOnChange)
}

func certificateFiles(_ *testing.T, s *settings) string {
	var paths []string
	for _, set := range s.config(node.Ingress, nil, nil).Certificates {
		paths = append(paths, set.Paths()...)
	}
	return fmt.Sprint(paths)
}

// enrolled shows what the agent gets its certificate from, and what follows from that for other settings.
func enrolled(_ *testing.T, s *settings) string {
	c := s.config(node.Sidecar, nil, nil)
	if c.Enrollment == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s:%s %+v %s", c.Enrollment.Host, c.Enrollment.Port, *c.Enrollment, certificateFiles(nil, s))
}
