package client

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// serial returns the number of the order whose certificate is served, 0 for none.
func (w *world) serial(t *testing.T) int64 {
	t.Helper()
	for _, g := range w.clients[w.at].secrets.all() {
		for _, s := range g.Secrets {
			block, _ := pem.Decode(s.Certificate)
			leaf, err := x509.ParseCertificate(block.Bytes)
			check(t, err)
			return leaf.SerialNumber.Int64()
		}
	}
	return 0
}

// says wants the lines of readiness to have a text, or none where it is "", and, where code is not "", the Gateway to have that note, with the text.
func (w *world) says(t *testing.T, text string, code model.Code) {
	t.Helper()
	c := w.clients[w.at]
	lines, notes := strings.Join(c.Lines(), "\n"), c.Notes()
	if text == "" && lines != "" || !strings.Contains(lines, text) {
		t.Errorf("the lines are %q, want %q", lines, text)
	}
	if code != "" && (len(notes) == 0 || notes[0].Code != code || !strings.Contains(notes[0].Message, text)) {
		t.Errorf("the notes are %v, want %s with %q", notes, code, text)
	}
}

const noSpace = "no space left on device"

// The disk is full when a certificate arrives: it is served all the same, and the one order is all, by restarts too, however long that lasts. While it is full nothing is ordered,
// the last certificate stays, and lines and notes say why. With space it goes on within two minutes.
func TestAFullDiskWhenACertificateArrives(t *testing.T) {
	lab.InMountNamespace(t, func(t *testing.T) {
		disk := t.TempDir()
		lab.MountTmpfs(t, disk, "size=64k,mode=700", 0)
		ballast := filepath.Join(disk, "ballast")
		synctest.Test(t, func(t *testing.T) {
			w := newSharedWorld(t)
			dir := filepath.Join(disk, "acme")
			stop := w.startWith(w.at, Directory(dir))
			pass(time.Minute)
			if n := w.serial(t); n != 1 {
				t.Fatalf("the certificate of order %d is served, want 1", n)
			}
			w.says(t, "", "")
			w.issuer.whenAsked(func(path string) {
				if path == "finalize" && w.issuer.count() == 2 {
					lab.Fill(t, ballast)
				}
			})
			pass(certificateLife * 3 / 4) // it is renewed, and cannot be kept
			if n := w.serial(t); n != 2 || w.issuer.count() != 2 {
				t.Errorf("the certificate of order %d of %d is served, want 2 of 2", n, w.issuer.count())
			}
			w.says(t, noSpace, "")
			for range 3 { // a restart has the order, and fetches its certificate again
				stop()
				stop = w.startWith(w.at, Directory(dir))
				if n := w.serial(t); n == 0 {
					t.Error("a start serves no certificate, want that of order 1, which is kept")
				}
				pass(time.Minute)
				if n := w.serial(t); n != 2 || w.issuer.count() != 2 {
					t.Errorf("after a restart the certificate of order %d of %d is served, want 2 of 2", n, w.issuer.count())
				}
				w.says(t, noSpace, "")
			}
			asked := 0
			w.issuer.whenAsked(func(string) { asked++ })
			pass(24 * time.Hour) // it has ended long ago: nothing can be ordered
			if n := w.serial(t); n != 2 || w.issuer.count() != 2 || asked > 0 {
				t.Errorf("on a full disk the certificate of order %d of %d is served, and %d requests were sent, want 2 of 2 and none", n, w.issuer.count(), asked)
			}
			w.says(t, noSpace, model.ACMERefused)
			check(t, os.Remove(ballast))
			pass(2 * time.Minute)
			if n := w.serial(t); n != 3 || w.issuer.count() != 3 {
				t.Errorf("with space the certificate of order %d of %d is served, want 3 of 3", n, w.issuer.count())
			}
			w.says(t, "", "")
			stop()
			stop = w.startWith(w.at, Directory(dir))
			defer stop()
			if n := w.serial(t); n != 3 {
				t.Errorf("a start serves the certificate of order %d, want 3", n)
			}
		})
	})
}

// The disk becomes full while an order is made, so that the order is not kept: it goes on in memory, and its certificate is served. A start knows neither, and orders nothing: the next
// order is made once, when there is space.
func TestAFullDiskWhenAnOrderIsMade(t *testing.T) {
	lab.InMountNamespace(t, func(t *testing.T) {
		disk := t.TempDir()
		lab.MountTmpfs(t, disk, "size=64k,mode=700", 0)
		ballast := filepath.Join(disk, "ballast")
		synctest.Test(t, func(t *testing.T) {
			w := newSharedWorld(t)
			dir := filepath.Join(disk, "acme")
			w.issuer.whenAsked(func(path string) {
				if path == "new" && w.issuer.count() == 0 {
					lab.Fill(t, ballast)
				}
			})
			stop := w.startWith(w.at, Directory(dir))
			pass(time.Hour)
			if n := w.serial(t); n != 1 || w.issuer.count() != 1 {
				t.Errorf("the certificate of order %d of %d is served, want 1 of 1", n, w.issuer.count())
			}
			w.says(t, noSpace, "")
			for range 100 {
				stop()
				stop = w.startWith(w.at, Directory(dir))
				pass(3 * time.Minute)
			}
			if n := w.issuer.count(); n != 1 {
				t.Errorf("%d orders after restarts, want 1", n)
			}
			w.says(t, noSpace, model.ACMERefused)
			check(t, os.Remove(ballast))
			pass(2 * time.Minute)
			if n := w.serial(t); n != 2 || w.issuer.count() != 2 {
				t.Errorf("with space the certificate of order %d of %d is served, want 2 of 2", n, w.issuer.count())
			}
			w.says(t, "", "")
			if w.issuer.failed > 0 {
				t.Errorf("%d validations failed", w.issuer.failed)
			}
			stop()
		})
	})
}
