package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/node"
)

// rendered is the bootstrap that a pod's sidecar gets.
func rendered(t *testing.T, s *settings) string {
	t.Helper()
	root := fstest.MapFS{
		"labels":      {Data: []byte(`app="of-the-file"`)},
		"annotations": {Data: []byte(`note="of-the-file"`)},
	}
	env := identity.Environment{"POD_NAME": "p", "POD_NAMESPACE": "n"}
	params, _, err := s.params(node.Sidecar, env, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, root, addressIn(s.statsdUDPAddress))
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := s.bootstrapText(params)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func renderedTLS(t *testing.T, s *settings) string {
	s.controlPlaneAuthPolicy = authMutualTLS
	return rendered(t, s)
}

// started is a proxy of these settings, as the command makes it, that writes its log to w.
func started(t *testing.T, s *settings, w io.Writer) *proxy {
	t.Helper()
	env := identity.Environment{"POD_NAME": "p", "POD_NAMESPACE": "n", "INSTANCE_IP": "10.0.0.1"}
	said := lossy.NewWriter(w)
	t.Cleanup(func() { said.Flush(flushLimit) })
	p, err := newProxy(t.Context(), given{command: command{said: said, stdout: io.Discard}, env: env}, s, node.Sidecar, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refused is why the proxy does not even start.
func refused(t *testing.T, s *settings) string {
	if s.origins["configPath"].Set() {
		s.binaryPath = "/bin/sh" // which is there
	}
	err := started(t, s, io.Discard).run(t.Context())
	if err == nil {
		t.Fatal("it starts")
	}
	return err.Error()
}

// rotation is how a new certificate is answered while Envoy does not say what it presents.
func rotation(t *testing.T, s *settings) (text string) {
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{settings: s, child: &envoy.Proxy{}, log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		next := cert.Observation{Infos: []cert.Info{{Serial: "03e9"}}}
		if !p.proof().Taken(t.Context(), next, next) {
			text = fmt.Sprintf("a handover after %s", time.Since(began))
		}
	})
	return text
}

// served are the ports that the agent listens on.
func served(t *testing.T, s *settings) string {
	for name, port := range map[string]*int{"statusPort": &s.statusPort, "proxyAdminPort": &s.proxyAdminPort} {
		if !s.set(name) {
			*port = 0 // the default may be another program's
		}
	}
	stop, err := (&proxy{settings: s, child: &envoy.Proxy{}, log: slog.New(slog.DiscardHandler)}).serve(t.TempDir())
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

// logged is what the agent's own log looks like.
func logged(t *testing.T, s *settings) string {
	var out bytes.Buffer
	p := started(t, s, &out)
	p.log.Debug("told")
	p.log.Info("told")
	p.said.Flush(flushLimit)
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

func options(_ *testing.T, s *settings) string     { return fmt.Sprintf("%+v", s.options()) }
func supervision(_ *testing.T, s *settings) string { return fmt.Sprintf("%+v", s.supervision()) }

func certificateFiles(_ *testing.T, s *settings) string {
	var paths []string
	for _, set := range s.certificates(node.Ingress) {
		paths = append(paths, set.Paths()...)
	}
	return fmt.Sprint(paths)
}
