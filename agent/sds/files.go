package sds

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
)

// The names that Istio's control plane gives to secrets in the proxy's files: file-cert:CHAIN~KEY and file-root:ROOTS.
const (
	certificatePrefix = "file-cert:"
	rootsPrefix       = "file-root:"
)

// FilesOf returns the files that a secret's name refers to, and false if it refers to none.
func FilesOf(name string) (cert.Files, bool) {
	if pair, ok := strings.CutPrefix(name, certificatePrefix); ok {
		chain, key, ok := strings.Cut(pair, "~")
		return cert.Files{Chain: chain, Key: key}, ok && chain != "" && key != "" && !strings.ContainsAny(key, "~\x00") && !strings.Contains(chain, "\x00")
	}
	roots, ok := strings.CutPrefix(name, rootsPrefix)
	return cert.Files{Roots: roots}, ok && roots != "" && !strings.Contains(roots, "\x00")
}

// Seen is the observed state of a secret's files.
type Seen struct {
	Files cert.Files
	Info  cert.Info // of the leaf; zero where it cannot be read
	Fault string    // why the files are not served, or that they are served though they have expired
}

// OfFiles reads the files that names refer to, and returns their secrets and the observations. For files with a fault
// the secret of last stays; if last has none, the secret is left out.
func OfFiles(names []string, last Secrets, read func(path string) ([]byte, error), now time.Time) (Secrets, []Seen) {
	out, all := Secrets{}, make([]Seen, 0, len(names))
	for _, name := range names {
		files, ok := FilesOf(name)
		if !ok {
			continue
		}
		seen := Seen{Files: files}
		contents, err := readAll(files, read)
		if err == nil {
			seen.Info, err = judge(contents, now)
		}
		var expired *expiredError
		switch {
		case err == nil || errors.As(err, &expired):
			out.add(name, contents)
		default:
			if s, had := last[name]; had {
				out[name] = s
			}
		}
		if err != nil {
			seen.Fault = err.Error()
		}
		all = append(all, seen)
	}
	return out, all
}

func readAll(files cert.Files, read func(path string) ([]byte, error)) (contents [3][]byte, err error) {
	for i, path := range []string{files.Chain, files.Key, files.Roots} {
		if path == "" {
			continue
		}
		contents[i], err = read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return contents, fmt.Errorf("missing: %s", path)
		case err != nil:
			return contents, err
		case contents[i] == nil:
			contents[i] = []byte{}
		}
	}
	return contents, nil
}

// expiredError is the error for a certificate that has expired and has no other fault. Envoy accepts it, and so do
// clients that do not verify it.
type expiredError struct{ error }

func judge(contents [3][]byte, now time.Time) (cert.Info, error) {
	info, err := cert.Check(contents[0], contents[1], contents[2], now)
	if err == nil || info.NotBefore.IsZero() {
		return info, err
	}
	if _, timeless := cert.Check(contents[0], contents[1], contents[2], info.NotBefore); timeless == nil {
		err = &expiredError{err}
	}
	return info, err
}
