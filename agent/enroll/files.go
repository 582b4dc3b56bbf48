package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/internal/atomicfile"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// The names of the files, as Istio's agent has them.
const (
	ChainFile = "cert-chain.pem"
	KeyFile   = "key.pem"
	RootsFile = "root-cert.pem"
)

// The files are links through one link, as in a volume of Kubernetes: it is replaced at once.
//
//	key.pem ──▶ ..data/key.pem      ..data ──▶ ..made-123/
const (
	current    = "..data"
	generation = "..made-"
	lockFile   = "..lock"
)

// directory has the files of a certificate.
type directory struct {
	path string
	lock *os.File
	sync func(path string) error // atomicfile.Sync except in tests
}

// openDirectory makes a directory that no other user can use, and that no other agent uses. held is its lock if another image of this agent
// had it; nil for none.
func openDirectory(path, within string, held *os.File) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the certificate: %w", err)
	}
	if err := judge(path, within); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of the certificate: %w", err)
	}
	if same(held, lock) {
		lock.Close()
		d := &directory{path, held, atomicfile.Sync}
		return d, d.link()
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: another agent has its certificate there: give each agent a --certDir of its own", path)
	}
	d := &directory{path, lock, atomicfile.Sync}
	return d, d.link()
}

// same reports whether both are one file, which may have been replaced since the first was opened.
func same(held, opened *os.File) bool {
	if held == nil {
		return false
	}
	one, err1 := held.Stat()
	other, err2 := opened.Stat()
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

// judge refuses a directory that other users can change, or replace. What is above within does not count, nor what is above or below
// a directory that others cannot enter.
func judge(path, within string) error {
	var fault error
	for at, parent := path, false; at != within; at, parent = filepath.Dir(at), true {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		owner := ownerOf(at, info)
		foreign := owner != 0 && owner != uint32(os.Geteuid())
		switch mode := info.Mode(); {
		case !parent && (!info.IsDir() || mode.Perm()&0o077 != 0 || owner != uint32(os.Geteuid())):
			return fmt.Errorf("%s: has mode %s and the owner %d: the certificate needs a directory of mode 0700 of user %d", path, mode, owner, os.Geteuid())
		case parent && fault == nil && (foreign || mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0):
			fault = fmt.Errorf("%s: other users can replace it, for %s has mode %04o and the owner %d: give --certDir another place", path, at, mode.Perm(), owner)
		case parent && !foreign && info.IsDir() && mode.Perm()&0o011 == 0:
			return nil
		}
		if at == filepath.Dir(at) {
			return fault
		}
	}
	return fault
}

func ownerOf(path string, info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*unix.Stat_t); ok {
		return stat.Uid
	}
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return ^uint32(0)
	}
	return stat.Uid
}

// link makes the names of the files. A file of somebody else's is not replaced; an empty directory, such as a container's engine
// makes for a mount without a source, is.
func (d *directory) link() error {
	if err := unix.Rmdir(filepath.Join(d.path, current)); errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("%s: is a directory, want the link that an agent with --caAddress makes: remove it", filepath.Join(d.path, current))
	}
	for _, name := range []string{ChainFile, KeyFile, RootsFile} {
		at, to := filepath.Join(d.path, name), filepath.Join(current, name)
		found, err := os.Readlink(at)
		switch {
		case err == nil && found == to:
		case errors.Is(err, fs.ErrNotExist), unix.Rmdir(at) == nil:
			if err := os.Symlink(to, at); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: is there already, and is not of an agent with --caAddress: want a directory without it", at)
		}
	}
	return nil
}

// put replaces the files, all at once, also for a machine that loses its power: what was there is removed when the new ones are on the disk.
func (d *directory) put(chain, key, roots []byte) error {
	if now, err := os.Readlink(filepath.Join(d.path, current)); err == nil {
		d.clear(now) // of an attempt before, so that a disk that takes nothing is not filled
	}
	next, err := os.MkdirTemp(d.path, generation) // mode 0700
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{ChainFile, chain}, {KeyFile, key}, {RootsFile, roots}} {
		path := filepath.Join(next, file.name)
		if err = os.WriteFile(path, file.content, 0o600); err == nil {
			err = d.sync(path)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = d.sync(next)
	}
	if err != nil {
		_ = os.RemoveAll(next) // the reason is in err
		return err
	}
	pointer := filepath.Join(d.path, current+".new")
	if err := os.Remove(pointer); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(os.Symlink(filepath.Base(next), pointer), os.Rename(pointer, filepath.Join(d.path, current))); err != nil {
		_ = os.RemoveAll(next)
		return err
	}
	if err := d.sync(d.path); err != nil {
		return err // both are there
	}
	d.clear(filepath.Base(next))
	return nil
}

// clear removes what is no longer used, also by an agent that was killed.
func (d *directory) clear(but string) {
	entries, _ := os.ReadDir(d.path) // what is left is removed next time
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), generation) && e.Name() != but {
			_ = os.RemoveAll(filepath.Join(d.path, e.Name()))
		}
	}
}

// held is the certificate in the files.
type held struct {
	pair     tls.Certificate
	roots    []byte
	from, to time.Time // since when it is there, until when it is valid
}

// read returns the certificate in the files; nil if there is none that can be used at a time. fault is why not, nil where there
// are no files.
func (d *directory) read(now time.Time) (h *held, fault error) {
	in := func(name string) string { return filepath.Join(d.path, name) }
	contents, err := cert.Files{Chain: in(ChainFile), Key: in(KeyFile), Roots: in(RootsFile)}.Read()
	if err != nil || contents.Chain == nil {
		return nil, err
	}
	info, err := contents.Check(now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(contents.Chain, contents.Key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	h = &held{pair, contents.Roots, now, info.Ends}
	if file, err := os.Stat(in(ChainFile)); err == nil && file.ModTime().Before(now) {
		h.from = file.ModTime()
	}
	return h, nil
}

// pendingFile has the key of a request that was not answered: a token that may be used once is for this key. It is there before
// the authority is asked, for an agent that is killed before it has the answer.
const pendingFile = "..pending.pem"

// pending is that key.
type pending struct {
	directory *directory
	key       *ecdsa.PrivateKey // nil before the first request
	text      []byte            // of the key, PEM
}

// request returns a request for a certificate in the place of another one, nil for none.
func (p *pending) request(before *held) (csr []byte, err error) {
	if p.key == nil {
		if err := p.load(before); err != nil {
			return nil, err
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, p.key)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// load takes the key of an agent that ended, or makes one. Each certificate has a key of its own.
func (p *pending) load(before *held) error {
	if key, text := p.read(); key != nil && !isOf(key, before) {
		p.key, p.text = key, text
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := atomicfile.Write(p.path()+".new", p.path(), text, 0o600); err != nil {
		return fmt.Errorf("the authority is not asked, for the key of the request cannot be kept: %w", err)
	}
	p.key, p.text = key, text
	return nil
}

func isOf(key *ecdsa.PrivateKey, h *held) bool {
	return h != nil && key.PublicKey.Equal(h.pair.Leaf.PublicKey)
}

func (p *pending) path() string { return filepath.Join(p.directory.path, pendingFile) }

// read returns the key in the file, nil where there is none.
func (p *pending) read() (*ecdsa.PrivateKey, []byte) {
	text, err := safefile.Read(p.path(), longestToken)
	if err != nil {
		return nil, nil
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if k, is := key.(*ecdsa.PrivateKey); is && err == nil && k.Curve == elliptic.P256() {
		return k, text
	}
	return nil, nil
}

// answered forgets the key, which is beside its certificate now.
func (p *pending) answered() error {
	p.key, p.text = nil, nil
	if err := os.Remove(p.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
