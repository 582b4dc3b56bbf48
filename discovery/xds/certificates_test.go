package xds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// certificates returns a new directory with cert.pem, key.pem, ca.pem and crl.pem: the real Envoy opens the files of
// its configuration.
func certificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature, SubjectKeyId: []byte{1},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: template.NotBefore, NextUpdate: template.NotAfter,
	}, template, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, data := range map[string][]byte{
		"cert.pem": certificate, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "ca.pem": certificate,
		"crl.pem": pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: revoked}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// replaceFiles replaces the files in a configuration by files of dir, which exist.
func replaceFiles(t *testing.T, m protoreflect.Message, dir string) {
	t.Helper()
	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		replaceFiles(t, inner.ProtoReflect(), dir)
		if log, ok := inner.(*filelogv3.FileAccessLog); ok {
			log.Path = "/dev/null"
		}
		packed.Value = pack(inner).Value
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if source, ok := fileOf(fd, v); ok {
			name := map[protoreflect.Name]string{
				"private_key": "key.pem", "trusted_ca": "ca.pem",
				"certificate_chain": "cert.pem", "crl": "crl.pem",
			}[fd.Name()]
			source.Specifier = &corev3.DataSource_Filename{Filename: filepath.Join(dir, name)}
			return true
		}
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				replaceFiles(t, v.List().Get(i).Message(), dir)
			}
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if inner, ok := v.Interface().(protoreflect.Message); ok {
					replaceFiles(t, inner, dir)
				}
				return true
			})
		default:
			replaceFiles(t, v.Message(), dir)
		}
		return true
	})
}

func fileOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) (*corev3.DataSource, bool) {
	if fd.Message() == nil || fd.IsList() || fd.IsMap() {
		return nil, false
	}
	source, ok := v.Message().Interface().(*corev3.DataSource)
	return source, ok && source.GetFilename() != ""
}
