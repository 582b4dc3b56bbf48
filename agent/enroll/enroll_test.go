package enroll

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authority signs for a test, unless it fails.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	life time.Duration

	mu     sync.Mutex
	err    error
	asked  []string // by what: "certificate", or the token
	at     []time.Time
	keys   []string
	serial int64
	ahead  time.Duration // of its clock

	others  []byte // roots, in the place of its own
	rootErr error
	acks    int // of callers that have the roots
}

// askRoots answers with the roots, nil where the caller has them.
func (a *authority) askRoots(_ context.Context, _ []byte, h *held) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	roots := a.others
	if roots == nil {
		roots = a.roots()
	}
	if a.rootErr != nil {
		return nil, a.rootErr
	}
	if bytes.Equal(roots, h.roots) {
		a.acks++
		return nil, nil
	}
	return roots, nil
}

func newAuthority(t *testing.T, life time.Duration) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &authority{t: t, cert: cert, key: key, life: life, serial: 1}
}

func (a *authority) roots() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *authority) seen() (asked []string, at []time.Time, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.asked...), append([]time.Time{}, a.at...), append([]string{}, a.keys...)
}

func (a *authority) ask(_ context.Context, csr, _ []byte, with *tls.Certificate, token string) (answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	block, _ := pem.Decode(csr)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return answer{}, err
	}
	by := token
	if with != nil {
		by = "certificate"
	}
	a.asked, a.at, a.keys = append(a.asked, by), append(a.at, time.Now()), append(a.keys, string(request.RawSubjectPublicKeyInfo))
	if a.err != nil {
		return answer{}, a.err
	}
	if by == "dead" {
		return answer{}, &unsigned{text: "refused"}
	}
	id, _ := url.Parse("spiffe://cluster.local/ns/shop/sa/web")
	a.serial++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), URIs: []*url.URL{id}, NotBefore: time.Now().Add(a.ahead - time.Hour), NotAfter: time.Now().Add(a.ahead + a.life),
	}, a.cert, request.PublicKey, a.key)
	if err != nil {
		return answer{}, err
	}
	roots := a.others
	if roots == nil {
		roots = a.roots()
	}
	return answer{Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), Roots: string(roots)}, nil
}

// fixture is an enrollment with files in a directory of the test.
type fixture struct {
	*Enrollment
	t     *testing.T
	a     *authority
	dir   string
	token string
	log   *strings.Builder
}

func open(t *testing.T, a *authority, dir, token string) *fixture {
	t.Helper()
	f := &fixture{t: t, a: a, dir: filepath.Join(dir, "certificates"), token: filepath.Join(dir, "token"), log: &strings.Builder{}}
	roots := filepath.Join(dir, "roots.pem")
	check(t, os.WriteFile(roots, a.roots(), 0o600))
	f.write(token)
	e, err := Open(Config{Host: "ca", Port: "1", Roots: roots, Token: f.token, Dir: f.dir, Log: slog.New(slog.NewTextHandler(f.log, nil))})
	check(t, err)
	e.ask, e.roots = a.ask, a.askRoots
	f.Enrollment = e
	return f
}

func (f *fixture) write(token string) {
	f.t.Helper()
	check(f.t, os.WriteFile(f.token, []byte(token+"\n"), 0o600))
	check(f.t, os.Chtimes(f.token, time.Now(), time.Now()))
}

// run runs it for a time, in a bubble of synctest.
func (f *fixture) run(d time.Duration, during func()) {
	ctx, cancel := context.WithTimeout(f.t.Context(), d)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	if during != nil {
		during()
	}
	<-done
}

func (f *fixture) serial() int64 {
	f.t.Helper()
	h, err := f.dir_().read(time.Now())
	check(f.t, err)
	if h == nil {
		return 0
	}
	return h.pair.Leaf.SerialNumber.Int64()
}

func (f *fixture) dir_() *directory { return f.Enrollment.dir }

func (f *fixture) pending() *pending { return &pending{directory: f.dir_()} }

// The first certificate comes by the token, the others by the certificate before, at half of its life and not at one time.
func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "token")
		f.run(100*time.Hour, nil)
		asked, at, keys := f.a.seen()
		if len(asked) < 7 || len(asked) > 11 {
			t.Errorf("%d certificates in 100 hours of a life of 24, want 7 to 11", len(asked))
		}
		for i := range asked {
			want := "certificate"
			if i == 0 {
				want = "token"
			}
			if asked[i] != want {
				t.Errorf("certificate %d by %s, want %s", i, asked[i], want)
			}
			if i == 0 {
				continue
			}
			if after := at[i].Sub(at[i-1]); after < 9*time.Hour || after > 15*time.Hour {
				t.Errorf("certificate %d after %s", i, after)
			}
			if keys[i] == keys[i-1] {
				t.Errorf("certificate %d has the key of the one before", i)
			}
		}
		if f.Fault() != "" {
			t.Error(f.Fault())
		}
	})
}

// An authority that is away for ten hours costs nothing: the certificate of a day lasts.
func TestTheAuthorityIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "dead")
		f.write("token")
		f.run(60*time.Hour, func() {
			<-time.After(time.Hour)
			f.a.fail(errors.New("connection refused"))
			for range 100 {
				<-time.After(6 * time.Minute)
				if f.serial() == 0 {
					t.Error("the certificate is gone")
				}
			}
			<-time.After(4 * time.Hour) // renewal is due after 14.4 h at the latest
			asked, _, _ := f.a.seen()
			if len(asked) < 3 || f.Fault() == "" || !strings.Contains(f.Fault(), "connection refused") {
				t.Errorf("%d attempts, fault %q", len(asked), f.Fault())
			}
			f.a.fail(nil)
			<-time.After(2 * time.Minute)
			if f.Fault() != "" || f.serial() != 3 {
				t.Errorf("fault %q, serial %d after it is back", f.Fault(), f.serial())
			}
		})
		if n := strings.Count(f.log.String(), "certificate not renewed"); n > 3 {
			t.Errorf("%d lines of one fault:\n%s", n, f.log)
		}
	})
}

// In an hour an authority that cannot be reached is asked every few seconds, and one that refuses, or says when to come again, seldom. When it is back
// the next question brings the certificate, within seconds.
func TestHowOftenAnAuthorityIsAsked(t *testing.T) {
	for name, of := range map[string]struct {
		err         error
		least, most int // in an hour
		back        time.Duration
	}{
		"away":                  {&away{errors.New("connection refused")}, 720, 1500, 5 * time.Second},
		"a refusal":             {&unsigned{text: "401"}, 60, 90, time.Minute},
		"a wait that is named":  {&unsigned{text: "503", after: 2 * time.Minute}, 30, 31, 2 * time.Minute},
		"a failure of its own":  {errors.New("the certificate is not written"), 60, 90, time.Minute},
		"away, after a refusal": {errors.Join(&unsigned{text: "401"}, &away{errors.New("connection refused")}), 60, 90, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "token")
			f.a.fail(of.err)
			f.run(time.Hour+of.back+time.Second, func() {
				<-time.After(time.Hour)
				if asked, _, _ := f.a.seen(); len(asked) < of.least || len(asked) > of.most {
					t.Errorf("%s: asked %d times, want %d to %d", name, len(asked), of.least, of.most)
				}
				f.a.fail(nil)
			})
			if f.serial() == 0 {
				t.Errorf("%s: there is no certificate %s after it is back", name, of.back)
			}
		})
	}
}

// Attempts of one certificate have one key: a token that may be used once is for it.
func TestAttemptsHaveOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "token")
		f.a.fail(errors.New("the answer is lost"))
		f.run(time.Hour, func() {
			<-time.After(30 * time.Second)
			f.a.fail(nil)
		})
		_, _, keys := f.a.seen()
		if len(keys) < 4 || keys[0] != keys[len(keys)-1] {
			t.Errorf("%d attempts, and their keys differ", len(keys))
		}
	})
}

// A dead token and no certificate: another token mends it, within two seconds.
func TestAnotherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "dead")
		f.run(2*time.Hour, func() {
			<-time.After(time.Hour)
			if !strings.Contains(f.Fault(), "agent join --token-file FILE") {
				t.Errorf("fault %q, want the command that mends it", f.Fault())
			}
			f.write("token")
			<-time.After(2 * time.Second)
			if f.serial() == 0 || f.Fault() != "" {
				t.Errorf("after another token: serial %d, fault %q", f.serial(), f.Fault())
			}
		})
	})
}

// The certificate that a restart finds is used. One that has expired is logged, and the token brings another one.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := newAuthority(t, 24*time.Hour)
		first := open(t, a, dir, "token")
		first.run(time.Hour, nil)
		first.Close()
		second := open(t, a, dir, "dead")
		second.run(15*time.Hour, nil)
		second.Close()
		if asked, _, _ := a.seen(); len(asked) != 2 || asked[1] != "certificate" {
			t.Errorf("asked by %v, want the token, then the certificate", asked)
		}
		<-time.After(100 * time.Hour)
		third := open(t, a, dir, "token")
		third.run(time.Hour, nil)
		third.Close()
		if asked, _, _ := a.seen(); len(asked) != 3 || asked[2] != "token" {
			t.Errorf("asked by %v, want the token where the certificate has expired", asked)
		}
		if !strings.Contains(third.log.String(), "cannot be used") || !strings.Contains(third.log.String(), "expired") {
			t.Errorf("it is not told that the certificate had expired:\n%s", third.log)
		}
	})
}

// What cannot be used is not put into the files.
func TestAnswersThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newAuthority(t, 24*time.Hour), t.TempDir(), "token")
		f.run(time.Hour, nil)
		before := f.serial()
		other := newAuthority(t, 24*time.Hour)
		good := f.ask
		for name, change := range map[string]func(a answer) answer{
			"other roots": func(a answer) answer { a.Roots = string(other.roots()); return a },
			"no chain":    func(a answer) answer { a.Chain = ""; return a },
			"half":        func(a answer) answer { a.Chain = a.Chain[:100]; return a },
			"the key of another": func(a answer) answer {
				key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
				der, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
				b, _ := other.ask(context.Background(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil, nil, "x")
				return b
			},
		} {
			f.ask = func(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error) {
				a, err := good(ctx, csr, roots, with, token)
				return change(a), err
			}
			if err := f.renew(t.Context(), nil, f.pending()); err == nil || !strings.Contains(err.Error(), "cannot be used") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if f.serial() != before {
			t.Error("the files have changed")
		}
	})
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	f := open(t, newAuthority(t, time.Hour), dir, "token")
	defer f.Close()
	check(t, f.renew(t.Context(), nil, f.pending()))
	check(t, f.renew(t.Context(), nil, f.pending()))
	check(t, filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		check(t, err)
		info, err := e.Info()
		check(t, err)
		want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]
		if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm() != want {
			t.Errorf("%s has mode %s, want %o", path, info.Mode(), want)
		}
		return nil
	}))
	found, err := filepath.Glob(filepath.Join(f.dir, generation+"*"))
	if err != nil || len(found) != 1 {
		t.Errorf("%v: old certificates stay", found)
	}
}

// Directories in the place of files are no end: they are replaced with the next certificate.
func TestDirectoriesInPlaceOfFiles(t *testing.T) {
	for _, name := range []string{ChainFile, KeyFile, RootsFile, current, current + ".new", current + "/" + ChainFile, current + "/" + KeyFile, current + "/" + RootsFile} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c")
			d, err := openDirectory(path, "", nil)
			check(t, err)
			check(t, d.put([]byte("old"), []byte("old"), []byte("old")))
			check(t, d.lock.Close())
			at := filepath.Join(path, name)
			if err := os.Remove(at); !errors.Is(err, fs.ErrNotExist) {
				check(t, err)
			}
			check(t, os.Mkdir(at, 0o700))
			if d, err = openDirectory(path, "", nil); err != nil {
				t.Fatal(err)
			}
			defer d.lock.Close()
			if h, _ := d.read(time.Now()); h != nil {
				t.Errorf("a certificate is read: %v", h)
			}
			check(t, d.put([]byte("chain"), []byte("key"), []byte("roots")))
			for name, want := range map[string]string{ChainFile: "chain", KeyFile: "key", RootsFile: "roots"} {
				if got, err := os.ReadFile(filepath.Join(path, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", name, got, err)
				}
			}
		})
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) (at string)
		want string
	}{
		"others may write": {func(dir string) string {
			check(t, os.Mkdir(dir+"/c", 0o700))
			check(t, os.Chmod(dir+"/c", 0o770))
			return dir + "/c"
		}, "of mode 0700"},
		"others may rename": {func(dir string) string { check(t, os.Chmod(dir, 0o777)); return dir + "/c" }, "other users can replace it"},
		"others may rename what is above": {func(dir string) string {
			check(t, os.Chmod(dir, 0o777))
			check(t, os.Mkdir(dir+"/a", 0o755))
			return dir + "/a/c"
		}, "other users can replace it"},
		"it is a link": {func(dir string) string { check(t, os.Symlink(t.TempDir(), dir+"/c")); return dir + "/c" }, "needs a directory of mode 0700"},
		"files are there": {func(dir string) string {
			check(t, os.Mkdir(dir+"/c", 0o700))
			check(t, os.WriteFile(dir+"/c/key.pem", nil, 0o600))
			return dir + "/c"
		}, "key.pem: is there already"},
		"a directory with a file is in the place of one": {func(dir string) string {
			check(t, os.MkdirAll(dir+"/c/key.pem/mine", 0o700))
			return dir + "/c"
		}, "key.pem: is there already"},
		"a directory with a file is in the place of the link": {func(dir string) string {
			check(t, os.MkdirAll(dir+"/c/..data/mine", 0o700))
			return dir + "/c"
		}, "..data: is a directory, want the link"},
		"it is a file": {func(dir string) string { check(t, os.WriteFile(dir+"/c", nil, 0o600)); return dir + "/c" }, "make the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.Chmod(filepath.Dir(dir), 0o755)) // others may enter it
			at := c.make(dir)
			if _, err := openDirectory(at, "", nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "c")
	first, err := openDirectory(dir, "", nil)
	check(t, err)
	if _, err := openDirectory(dir, "", nil); err == nil || !strings.Contains(err.Error(), "another agent has its certificate there") {
		t.Errorf("a second agent: %v", err)
	}
	// Another image of the first agent goes on with the lock, and nobody gets in between.
	held, err := unix.FcntlInt(first.lock.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	check(t, err)
	check(t, first.lock.Close())
	if _, err := openDirectory(dir, "", nil); err == nil {
		t.Error("a second agent got in between two images of the first one")
	}
	file := os.NewFile(uintptr(held), "lock")
	first, err = openDirectory(dir, "", file)
	check(t, err)
	if first.lock != file {
		t.Error("the lock of the image before is not used")
	}
	other, err := openDirectory(filepath.Join(t.TempDir(), "d"), "", file) // it is another directory's
	check(t, err)
	if other.lock == file {
		t.Error("the lock of another directory is used")
	}
	check(t, other.lock.Close())
	check(t, first.lock.Close())
	second, err := openDirectory(dir, "", nil)
	check(t, err)
	check(t, second.lock.Close())
}

// Below a directory that is held open it does not matter who may rename that one.
func TestADirectoryThatIsHeldOpen(t *testing.T) {
	base := t.TempDir()
	check(t, os.Chmod(base, 0o777))
	check(t, os.Mkdir(base+"/slot", 0o700))
	held, err := os.Open(base + "/slot")
	check(t, err)
	defer held.Close()
	within := fmt.Sprintf("/dev/fd/%d", held.Fd())
	dir, err := openDirectory(within+"/certificates", within, nil)
	check(t, err)
	defer dir.lock.Close()
	check(t, os.Rename(base+"/slot", base+"/away"))
	check(t, os.Mkdir(base+"/slot", 0o700))
	check(t, dir.put([]byte("chain"), []byte("key"), []byte("roots")))
	if text, err := os.ReadFile(base + "/away/certificates/" + KeyFile); err != nil || string(text) != "key" {
		t.Errorf("%q, %v", text, err)
	}
	check(t, os.Chmod(base+"/away/certificates", 0o770))
	if err := judge(within+"/certificates", within); err == nil || !strings.Contains(err.Error(), "of mode 0700") {
		t.Errorf("a directory that others may write to: %v", err)
	}
}

// Others cannot rename what is below a directory that they cannot enter.
func TestADirectoryThatOthersCannotReach(t *testing.T) {
	base := t.TempDir()
	check(t, os.Chmod(base, 0o700))
	check(t, os.Mkdir(base+"/open", 0o700))
	check(t, os.Chmod(base+"/open", 0o777))
	dir, err := openDirectory(base+"/open/c", "", nil)
	check(t, err)
	dir.lock.Close()
}

// After a power cut there is the new certificate or the one before, for a token is often spent: each file is on the disk before it counts, and
// that it counts is on the disk before what was there is removed. What cannot be synced does not replace anything.
func TestACertificateOutlivesAPowerCut(t *testing.T) {
	d, err := openDirectory(filepath.Join(t.TempDir(), "certificates"), "", nil)
	check(t, err)
	defer d.lock.Close()
	put := func(serial string) error {
		return d.put([]byte("chain"+serial), []byte("key"+serial), []byte("roots"+serial))
	}
	has := func(at string) (generations int) {
		t.Helper()
		for name, want := range map[string]string{ChainFile: "chain", KeyFile: "key", RootsFile: "roots"} {
			if text, err := os.ReadFile(filepath.Join(d.path, name)); err != nil || !strings.HasPrefix(string(text), want+at) {
				t.Errorf("%s: %q, %v; want that of %s", name, text, err, at)
			}
		}
		found, err := filepath.Glob(filepath.Join(d.path, generation+"*"))
		check(t, err)
		return len(found)
	}
	check(t, put("1"))
	var synced []string
	failing := -1
	d.sync = func(path string) error {
		want := "1"
		if path == d.path {
			want = ""
		}
		if n := has(want); n != 2 {
			t.Errorf("sync of %s: %d generations, want that the one before is there", path, n)
		}
		if synced = append(synced, filepath.Base(path)); len(synced) == failing {
			return unix.ENOSPC
		}
		return nil
	}
	for failing = 1; failing <= 4; failing++ {
		synced = nil
		if err := put("2"); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("the sync %d fails: %v", failing, err)
		}
		if n := has("1"); n != 1 {
			t.Errorf("the sync %d fails: %d generations", failing, n)
		}
	}
	synced = nil
	for failing = 5; failing <= 15; failing += 5 { // the last one, each time: nothing says which of both a power cut leaves
		if err := put("1"); !errors.Is(err, unix.ENOSPC) || has("1") != 2 {
			t.Errorf("the last sync fails: %v, %d generations", err, has("1"))
		}
		if len(synced) != failing {
			t.Errorf("%d syncs, want %d", len(synced), failing)
		}
	}
	synced, failing = nil, -1
	check(t, put("2"))
	if got := strings.Join(synced, " "); !strings.HasPrefix(got, "cert-chain.pem key.pem root-cert.pem ..made-") || !strings.HasSuffix(got, " certificates") || len(synced) != 5 {
		t.Errorf("synced %s", got)
	}
	if n := has("2"); n != 1 {
		t.Errorf("%d generations are left", n)
	}
}

// New roots come within minutes, with a certificate, and the authority learns that they came. Roots that do not fit, and an authority
// that is away, change nothing.
func TestRootsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, other := newAuthority(t, 24*time.Hour), newAuthority(t, 24*time.Hour)
		f := open(t, a, t.TempDir(), "token")
		both := append(a.roots(), other.roots()...)
		set := func(roots []byte, err error) (acks int) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.others, a.rootErr, a.err = roots, err, err
			return a.acks
		}
		trusts := func(step string, want []byte) {
			t.Helper()
			if text, err := os.ReadFile(filepath.Join(f.dir, RootsFile)); err != nil || !bytes.Equal(text, want) {
				t.Errorf("%s: %v, %s", step, err, text)
			}
		}
		f.run(8*time.Hour, func() {
			<-time.After(time.Minute)
			serial := f.serial()
			before := set(both, nil)
			<-time.After(8 * time.Minute)
			trusts("both", both)
			<-time.After(8 * time.Minute)
			if set(both, nil) == before || f.serial() != serial+1 {
				t.Errorf("serial %d, want %d; the authority must be told that the roots are here", f.serial(), serial+1)
			}
			set(other.roots(), nil)
			<-time.After(8 * time.Minute)
			trusts("roots that do not fit", both)
			set(nil, errors.New("connection refused"))
			<-time.After(8 * time.Minute)
			trusts("away", both)
			set(nil, nil)
			<-time.After(8 * time.Minute)
			trusts("one again", a.roots())
			if f.Fault() != "" {
				t.Errorf("fault %q", f.Fault())
			}
		})
		for want, times := range map[string]int{"cannot be used": 1, "certificate not renewed": 2} {
			if n := strings.Count(f.log.String(), want); n != times {
				t.Errorf("said %d times, want %d: %s\n%s", n, times, want, f.log)
			}
		}
	})
}

func TestNextLook(t *testing.T) {
	for _, of := range []struct {
		life   time.Duration
		random float64
		want   time.Duration
	}{
		{24 * time.Hour, 0, 150 * time.Second},
		{24 * time.Hour, 1, 450 * time.Second},
		{16 * time.Second, 0.5, 2 * time.Second},
		{time.Second, 0, time.Second},
	} {
		if got := nextLook(of.life, of.random); got != of.want {
			t.Errorf("%s, %g: %s, want %s", of.life, of.random, got, of.want)
		}
	}
}
