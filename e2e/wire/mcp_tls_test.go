//go:build wire

package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// secured gives istiod a port of TLS, with a certificate of an authority for istiod.test.
func (i *istiod) secured(authority *lab.Authority) (address string) {
	i.w.T.Helper()
	identity, err := authority.Issue("istiod.test", 2)
	i.w.check(err)
	i.w.check(identity.Write(i.spec.Work, "istiod"))
	address = fmt.Sprintf("127.0.0.1:%d", lab.Port(i.w.T))
	at := func(name string) string { return filepath.Join(i.spec.Work, name) }
	i.spec.Argv = append(i.spec.Argv, "--secureGRPCAddr", address, "--tlsCertFile", at("istiod.pem"), "--tlsKeyFile", at("istiod.key"), "--caCertFile", at("ca.pem"))
	i.Stop(stopLimit)
	i.restart()
	i.w.check(lab.Eventually(30*time.Second, func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}))
	return address
}

// Our discovery reads istiod by mutual TLS. Foreign roots, another name, and the lack of a certificate are named in the log; MeshConfig is read again
// when it is mended. After that everything is as in plain text, with istiod killed too.
func TestDiscoveryReadsIstiodOverTLS(t *testing.T) {
	testControlPlanes(t, func(files, reader *world) controlPlanes {
		authority, err := lab.NewAuthority("mesh")
		reader.check(err)
		stranger, err := lab.NewAuthority("stranger")
		reader.check(err)
		i := files.istiod()
		address := i.secured(authority)
		client, err := authority.Issue("spiffe://cluster.local/ns/istio-system/sa/discovery", 3)
		reader.check(err)
		reader.check(client.Write(reader.Dir, "discovery"))
		at := func(name string) string { return filepath.Join(reader.Dir, name) }
		reader.check(os.WriteFile(at("foreign.pem"), stranger.PEM(), 0o644))
		mesh := at("mesh.yaml")
		settings := func(format string, args ...any) {
			text := fmt.Sprintf("configSources: [{address: \"xds://%s\", tlsSettings: {%s}}]\n", address, fmt.Sprintf(format, args...))
			reader.check(os.WriteFile(mesh+".new", []byte(text), 0o644))
			reader.check(os.Rename(mesh+".new", mesh))
		}
		says := func(want string) {
			reader.T.Helper()
			reader.check(lab.Eventually(30*time.Second, func() error {
				page, err := lab.Get("http://" + reader.discovery.HTTP + "/ready?verbose")
				if err == nil && !strings.Contains(page, want) {
					err = fmt.Errorf("discovery says %q, want %q", page, want)
				}
				return err
			}))
		}
		own := fmt.Sprintf("mode: MUTUAL, clientCertificate: %s, privateKey: %s", at("discovery.pem"), at("discovery.key"))
		settings("%s, caCertificates: %s, sni: istiod.test", own, at("foreign.pem"))
		reader.serve("--meshConfig", mesh, "--registrySyncTimeout", "200ms", "--registries", "Mock", "--optionalSources", "xds://"+address)
		says("certificate signed by unknown authority")
		settings("%s, caCertificates: %s", own, at("ca.pem"))
		says("cannot validate certificate for 127.0.0.1")
		settings("mode: SIMPLE, caCertificates: %s, sni: istiod.test", at("ca.pem"))
		says("authentication failure")
		settings("%s, caCertificates: %s, sni: istiod.test", own, at("ca.pem"))
		return controlPlanes{
			debug: [2]string{i.http, reader.discovery.HTTP}, xds: reader.discovery.GRPC,
			kill: func() { reader.lose(i.Process, reader.discovery.Process, "source failed, its last groups are served") }, again: i.restart,
		}
	})
}
