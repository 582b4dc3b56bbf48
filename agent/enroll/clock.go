package enroll

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

const clocksAgree = 2 * time.Minute // an answer may be on its way for some of it

// clockNote says how far the clock of this machine is from that of the authority, by when it has signed; "" where they agree or that is not known.
func clockNote(issued, now time.Time) string {
	off := now.Sub(issued)
	switch {
	case issued.IsZero() || off.Abs() < clocksAgree:
		return ""
	case off > 0:
		return fmt.Sprintf("the clock of this machine is %s fast, or that of the authority slow", off.Round(time.Second))
	default:
		return fmt.Sprintf("the clock of this machine is %s slow, or that of the authority fast", (-off).Round(time.Second))
	}
}

// withClock adds to an error what clocks have to do with it: a certificate of the authority that is not valid at this machine's time.
func withClock(err error, leaf *x509.Certificate, now time.Time) error {
	invalid := new(x509.CertificateInvalidError)
	if err == nil || !errors.As(err, invalid) || invalid.Reason != x509.Expired {
		return err
	}
	switch {
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w: the clock of this machine is hours slow, by %s at least, or that of the authority fast", err, leaf.NotBefore.Sub(now).Round(time.Second))
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%w: the clock of this machine is hours fast, by %s at least, or that of the authority slow", err, now.Sub(leaf.NotAfter).Round(time.Second))
	}
	return err
}
