package ads

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a secret are named as in a Kubernetes secret of type TLS.
const (
	secretCertificate = "tls.crt"
	secretKey         = "tls.key"
	secretRoots       = "ca.crt"
	rootsSuffix       = "-cacert" // of the name that roots are asked for by, where they stand beside a certificate
)

// ReadSecrets reads DIR/NAMESPACE/NAME/tls.crt, tls.key and ca.crt. A certificate is the secret NAME and its roots are
// NAME-cacert; roots that stand alone are NAME as well. Of a secret with an error the one in last stays, and every error
// is returned with the rest.
func ReadSecrets(dir string, last Secrets) (Secrets, error) {
	out := Secrets{}
	namespaces, err := os.ReadDir(dir)
	if err != nil {
		return last, fmt.Errorf("read secrets: %w", err)
	}
	var faults []error
	for _, namespace := range directories(dir, namespaces) {
		entries, err := os.ReadDir(filepath.Join(dir, namespace))
		if err != nil {
			faults = append(faults, fmt.Errorf("read secrets: %w", err))
			out[namespace] = last[namespace]
			continue
		}
		out[namespace] = map[string]Secret{}
		for _, name := range directories(filepath.Join(dir, namespace), entries) {
			certificate, roots, err := readSecret(filepath.Join(dir, namespace, name))
			faults = append(faults, err)
			for as, s := range map[string]*Secret{name: certificate, name + rootsSuffix: roots} {
				if old, had := last[namespace][as]; err != nil && had {
					s = &old
				}
				if s != nil {
					out[namespace][as] = *s
				}
			}
			if _, taken := out[namespace][name]; roots != nil && !taken {
				out[namespace][name] = *roots
			}
		}
	}
	return out, errors.Join(faults...)
}

// SecretDirectories are dir and those below it whose files ReadSecrets looks at.
func SecretDirectories(dir string) []string {
	out := []string{dir}
	for range 2 { // namespaces, then names
		for _, above := range out {
			if entries, err := os.ReadDir(above); err == nil {
				for _, name := range directories(above, entries) {
					out = append(out, filepath.Join(above, name))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// directories are those that people made: Kubernetes' own begin with two dots.
func directories(dir string, entries []fs.DirEntry) (out []string) {
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // which a link may lead to
		if err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out
}

// readSecret returns what a directory holds, nil for what it does not.
func readSecret(dir string) (certificate, roots *Secret, err error) {
	var files [3][]byte
	for i, name := range []string{secretCertificate, secretKey, secretRoots} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("read secret: %w", err)
		}
		files[i] = data
	}
	if files[0] == nil && files[1] == nil && files[2] == nil {
		return nil, nil, fmt.Errorf("read secret %s: it has neither %s nor %s", dir, secretCertificate, secretRoots)
	}
	if files[0] != nil || files[1] != nil {
		if _, err := tls.X509KeyPair(files[0], files[1]); err != nil {
			return nil, nil, fmt.Errorf("read secret %s, of %s and %s: %w", dir, secretCertificate, secretKey, err)
		}
		certificate = &Secret{Certificate: files[0], Key: files[1]}
	}
	if files[2] != nil {
		if !x509.NewCertPool().AppendCertsFromPEM(files[2]) {
			return nil, nil, fmt.Errorf("read secret %s: no certificate in %s, want PEM", dir, secretRoots)
		}
		roots = &Secret{Roots: files[2]}
	}
	return certificate, roots, nil
}
