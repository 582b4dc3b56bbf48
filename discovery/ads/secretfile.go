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
	"unicode/utf8"
)

// The files of a secret are named as in a Kubernetes secret of type TLS.
const (
	secretCertificate = "tls.crt"
	secretKey         = "tls.key"
	secretRoots       = "ca.crt"
	secretAccounts    = "service-accounts"
	rootsSuffix       = "-cacert" // of the name that roots are asked for by, where they stand beside a certificate
)

// ReadSecrets reads DIR/NAMESPACE/NAME/tls.crt, tls.key and ca.crt. A certificate is the secret NAME and its roots are
// NAME-cacert; roots that stand alone are NAME as well. A file service-accounts beside them, else
// DIR/NAMESPACE/service-accounts, lists the service accounts whose proxies may have the key. Of a secret with an error the
// one in last stays, and every error is returned with the rest.
func ReadSecrets(dir string, last Secrets) (Secrets, error) {
	namespaces, faults := directories(dir)
	if namespaces == nil && faults != nil {
		return last, errors.Join(faults...)
	}
	out := Secrets{}
	for _, namespace := range namespaces {
		folder := filepath.Join(dir, namespace)
		names, errs := directories(folder)
		accounts, err := readAccounts(folder)
		faults = append(append(faults, errs...), err)
		if names == nil && errs != nil {
			out[namespace] = last[namespace]
			continue
		}
		out[namespace] = map[string]Secret{}
		for _, name := range names {
			certificate, roots, err := readSecret(filepath.Join(folder, name), accounts)
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
			names, _ := directories(above) // ReadSecrets tells what is wrong
			for _, name := range names {
				out = append(out, filepath.Join(above, name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// directories are those that people made: Kubernetes' own begin with two dots. Without an error they are not nil.
func directories(dir string) (names []string, faults []error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, []error{fmt.Errorf("read secrets: %w", err)}
	}
	names = []string{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // which a link may lead to
		switch {
		case err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), "."):
		case !utf8.ValidString(e.Name()): // no resource of Envoy can have such a name
			faults = append(faults, fmt.Errorf("read secrets: directory %q is ignored: its name is not UTF-8", filepath.Join(dir, e.Name())))
		default:
			names = append(names, e.Name())
		}
	}
	return names, faults
}

// readAccounts reads the words of DIR/service-accounts, nil where there is no such file. A fault lets nobody in.
func readAccounts(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, secretAccounts))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	return strings.Fields(string(text)), nil
}

// readSecret returns what a directory holds, nil for what it does not. accounts are those of its namespace.
func readSecret(dir string, accounts []string) (certificate, roots *Secret, err error) {
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
		own, err := readAccounts(dir)
		if err != nil {
			return nil, nil, err
		}
		if own != nil { // an empty file lets nobody in
			accounts = own
		}
		certificate = &Secret{Certificate: files[0], Key: files[1], Accounts: accounts}
	}
	if files[2] != nil {
		if !x509.NewCertPool().AppendCertsFromPEM(files[2]) {
			return nil, nil, fmt.Errorf("read secret %s: no certificate in %s, want PEM", dir, secretRoots)
		}
		roots = &Secret{Roots: files[2]}
	}
	return certificate, roots, nil
}
