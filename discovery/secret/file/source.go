package file

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/watch"
)

// Source sends the secrets of a directory. It implements secret.Source.
type Source struct {
	dir  string
	log  *slog.Logger // of the watch
	last map[string]secret.Group

	mu      sync.Mutex
	wanted  []secret.Wanted
	known   map[secret.Name]string // faults of the wanted secrets that were looked for, "" for none
	changed chan struct{}          // gets a value when Want has set other ones

	// OnLearned, if not nil, is called when the result of Known has changed. It must return at once.
	OnLearned func()
}

// New returns the source of a directory.
func New(dir string, log *slog.Logger) *Source {
	return &Source{dir: dir, log: log, known: map[secret.Name]string{}, changed: make(chan struct{}, 1)}
}

// Run sends the secrets, and then the changes. A watch covers one directory, not those below: when the directories
// change, all watches are made again.
func (s *Source) Run(ctx context.Context, updates chan<- secret.Update) error {
	r := &run{Source: s, out: updates, sent: map[string]secret.Group{}}
	for ctx.Err() == nil {
		_, looked := read(s.dir, s.last)
		if err := r.follow(ctx, looked); err != nil {
			return err
		}
	}
	return nil
}

// run is one Run.
type run struct {
	*Source
	out    chan<- secret.Update
	sent   map[string]secret.Group
	synced bool
}

// follow sends the secrets and the changes, until the directories to watch change.
func (r *run) follow(ctx context.Context, watched []string) error {
	ticks := make(chan struct{}, 1) // the first comes when the watches are set up
	watcher := watch.Watcher{Paths: watched, Quiet: 100 * time.Millisecond, Ceiling: time.Second, Recheck: time.Minute, Log: r.log}
	round, end := context.WithCancel(ctx)
	defer end()
	g, round := errgroup.WithContext(round)
	g.Go(func() error { return watcher.Run(round, ticks) })
	g.Go(func() error {
		defer end()
		for {
			select {
			case <-round.Done():
				return nil
			case <-ticks:
			case <-r.changed:
			}
			groups, looked := read(r.dir, r.last)
			known := r.addWanted(groups)
			r.send(round, groups)
			r.learn(known)
			if !slices.Equal(looked, watched) {
				return nil
			}
		}
	})
	return g.Wait()
}

// send sends the groups that differ from those that this run has sent.
func (r *run) send(ctx context.Context, groups map[string]secret.Group) {
	u := secret.Update{Groups: map[string]secret.Group{}, Synced: !r.synced}
	for key, group := range groups {
		if sent, had := r.sent[key]; !had || !sent.Same(group) || !slices.Equal(sent.Faults, group.Faults) {
			u.Groups[key] = group
		}
	}
	for key := range r.sent {
		if _, still := groups[key]; !still {
			u.Groups[key] = secret.Group{}
		}
	}
	if len(u.Groups) == 0 && !u.Synced {
		return
	}
	select {
	case r.out <- u:
		r.sent, r.synced = groups, true
		r.last = good(groups, r.last)
	case <-ctx.Done():
	}
}

// good returns groups, with malformed ones replaced by their last good form.
func good(groups, last map[string]secret.Group) map[string]secret.Group {
	out := map[string]secret.Group{}
	for key, group := range groups {
		if before, had := last[key]; group.Malformed() && had {
			group = before
		}
		if len(group.Secrets) > 0 {
			out[key] = group
		}
	}
	return out
}

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	rootsFile       = "ca.crt"
	accountsFile    = "service-accounts"
	namespacesFile  = "destination-rule-namespaces"
	rootsSuffix     = "-cacert" // ends the name of roots that are beside a certificate
)

// read returns a group for each directory of a secret, by NAMESPACE/NAME, and the directories that it has looked at. If
// dir or a whole namespace has a fault, the fault is added and the groups of last in it stay.
func read(dir string, last map[string]secret.Group) (groups map[string]secret.Group, looked []string) {
	groups, looked = map[string]secret.Group{}, []string{dir}
	namespaces, ignored, err := directories(dir)
	if err != nil {
		maps.Copy(groups, last)
		groups[dir] = secret.Group{Faults: []string{err.Error()}}
		return groups, looked
	}
	ignore(groups, dir, ignored)
	for _, namespace := range namespaces {
		folder := filepath.Join(dir, namespace)
		names, ignored, err := directories(folder)
		if err == nil {
			looked = append(looked, folder)
			ignore(groups, folder, ignored)
			var of users
			if of, err = readUsers(folder, users{}); err == nil {
				for _, name := range names {
					at := filepath.Join(folder, name)
					looked = append(looked, at)
					groups[namespace+"/"+name] = readGroup(at, secret.Name{Namespace: namespace, Name: name}, of)
				}
				continue
			}
		}
		groups[namespace] = secret.Group{Faults: []string{err.Error()}}
		for key, group := range last {
			if of, _, _ := strings.Cut(key, "/"); of == namespace && key != namespace {
				groups[key] = group
			}
		}
	}
	return groups, looked
}

// ignore adds a fault for each directory that cannot be a secret.
func ignore(groups map[string]secret.Group, dir string, names []string) {
	for _, name := range names {
		groups[fmt.Sprintf("%q", name)+" in "+dir] = secret.Group{Faults: []string{
			fmt.Sprintf("directory %q is ignored: its name is not UTF-8", filepath.Join(dir, name)),
		}}
	}
}

// directories returns the directories whose names do not begin with a dot: those that Kubernetes makes for itself begin
// with two. The names of ignored directories cannot be names of Envoy resources.
func directories(dir string) (names, ignored []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // e may be a link to a directory
		switch {
		case err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), "."):
		case !utf8.ValidString(e.Name()):
			ignored = append(ignored, e.Name())
		default:
			names = append(names, e.Name())
		}
	}
	return names, ignored, nil
}

func readGroup(dir string, name secret.Name, of users) secret.Group {
	certificate, roots, err := readSecret(dir, of)
	if err != nil {
		return secret.Group{Faults: []string{err.Error()}}
	}
	g := secret.Group{Secrets: map[secret.Name]secret.Secret{}}
	if roots != nil {
		g.Secrets[secret.Name{Namespace: name.Namespace, Name: name.Name + rootsSuffix}] = *roots
		g.Secrets[name] = *roots
	}
	if certificate != nil {
		g.Secrets[name] = *certificate
	}
	return g
}

// readSecret returns the certificate and the roots of a directory, each nil if it has none. of are the users of its
// namespace.
func readSecret(dir string, of users) (certificate, roots *secret.Secret, err error) {
	var files [3][]byte
	for i, name := range []string{certificateFile, keyFile, rootsFile} {
		if files[i], err = safefile.Read(filepath.Join(dir, name), maxFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	if files[0] == nil && files[1] == nil && files[2] == nil {
		return nil, nil, fmt.Errorf("%s: it has neither %s nor %s", dir, certificateFile, rootsFile)
	}
	if files[0] != nil || files[1] != nil {
		own, err := readUsers(dir, of)
		if err != nil {
			return nil, nil, err
		}
		pair, err := secret.Pair(files[0], files[1], own.accounts)
		if err != nil {
			return nil, nil, fmt.Errorf("%s, of %s and %s: %w", dir, certificateFile, keyFile, err)
		}
		pair.Namespaces = own.namespaces
		certificate = &pair
	}
	if files[2] != nil {
		if !x509.NewCertPool().AppendCertsFromPEM(files[2]) {
			return nil, nil, fmt.Errorf("%s: no certificate in %s, want PEM", dir, rootsFile)
		}
		roots = &secret.Secret{Roots: files[2]}
	}
	return certificate, roots, nil
}

// users are the service accounts that may have a key, and the namespaces whose DestinationRules may use it.
type users struct{ accounts, namespaces []string }

// readUsers reads the words of both files of a directory. A missing file leaves those of wider; an empty one gives access to
// none. With a fault nobody has access.
func readUsers(dir string, wider users) (users, error) {
	for name, list := range map[string]*[]string{accountsFile: &wider.accounts, namespacesFile: &wider.namespaces} {
		text, err := safefile.Read(filepath.Join(dir, name), maxFile)
		switch {
		case err == nil:
			*list = strings.Fields(string(text))
		case !errors.Is(err, fs.ErrNotExist):
			return users{}, err
		}
	}
	return wider, nil
}

// maxFile is the largest size of a file, in bytes: Kubernetes' limit for a whole secret.
const maxFile = 1 << 20
