package spiffe

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
)

// Limits of the standard, in bytes.
const (
	maxID     = 2048
	maxDomain = 255
)

const scheme = "spiffe://"

// ID is an identity. The zero value is none.
type ID struct {
	TrustDomain string   // "cluster.local"
	Path        []string // its segments, at least one
}

func (id ID) String() string { return scheme + id.TrustDomain + "/" + strings.Join(id.Path, "/") }

// Of returns the identity of a certificate. A certificate with a further URI has none: one of its readers would take
// the first, and another one the second.
func Of(certificate *x509.Certificate) (ID, error) {
	uris, err := URIs(certificate)
	if err != nil {
		return ID{}, err
	}
	if len(uris) != 1 {
		return ID{}, fmt.Errorf("the certificate has %d URIs %q, want exactly one, a SPIFFE ID", len(uris), uris)
	}
	return Parse(uris[0])
}

// Like reports whether a URI claims to be a SPIFFE ID, valid or not.
func Like(uri string) bool {
	return len(uri) >= len("spiffe:") && strings.EqualFold(uri[:len("spiffe:")], "spiffe:")
}

// Parse reads spiffe://TRUST.DOMAIN/SEGMENT/… in its one form: no user, port, query, fragment or percent-encoding, no
// empty segment, and no upper case before the path.
func Parse(text string) (ID, error) {
	if err := check(text); err != nil {
		return ID{}, fmt.Errorf("%q is not a SPIFFE ID: %w", text, err)
	}
	parts := strings.Split(text[len(scheme):], "/")
	return ID{parts[0], parts[1:]}, nil
}

func check(text string) error {
	rest, found := strings.CutPrefix(text, scheme)
	domain, path, slash := strings.Cut(rest, "/")
	switch {
	case len(text) > maxID:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxID)
	case !found:
		return errors.New("it does not begin with " + scheme)
	case domain == "":
		return errors.New("it has no trust domain")
	case len(domain) > maxDomain:
		return fmt.Errorf("its trust domain has %d bytes, at most %d are allowed", len(domain), maxDomain)
	case strings.ContainsFunc(domain, func(r rune) bool { return !domainRune(r) }):
		return fmt.Errorf("its trust domain is %q, want lower-case letters, digits, '.', '-' and '_'", domain)
	case !slash:
		return errors.New("it has no path")
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return fmt.Errorf("its path has the segment %q", segment)
		case strings.ContainsFunc(segment, func(r rune) bool { return !segmentRune(r) }):
			return fmt.Errorf("its path has the segment %q, want letters, digits, '.', '-' and '_'", segment)
		}
	}
	return nil
}

func domainRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_", r)
}

func segmentRune(r rune) bool { return domainRune(r) || 'A' <= r && r <= 'Z' }

// Tags of a URI among the alternative names of a subject.
const (
	contextClass = 2
	uriTag       = 6
)

// URIs returns the URIs of a certificate as they are written in it. A parsed URL has lost an empty fragment and the
// case of its scheme.
func URIs(certificate *x509.Certificate) (uris []string, err error) {
	for _, extension := range certificate.Extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) { // the subject's alternative names
			continue
		}
		var names asn1.RawValue
		if _, err := asn1.Unmarshal(extension.Value, &names); err != nil {
			return nil, fmt.Errorf("read the certificate's alternative names: %w", err)
		}
		for rest := names.Bytes; len(rest) > 0; {
			var name asn1.RawValue
			if rest, err = asn1.Unmarshal(rest, &name); err != nil {
				return nil, fmt.Errorf("read the certificate's alternative names: %w", err)
			}
			if name.Class == contextClass && name.Tag == uriTag {
				uris = append(uris, string(name.Bytes))
			}
		}
	}
	return uris, nil
}
