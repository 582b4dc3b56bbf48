package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// AuthorityStore is where an authority is stored, for the commands of a person: in the files of Dir, or in a Secret
// that replicas share.
type AuthorityStore struct {
	Dir    string
	Secret string      // NAMESPACE/NAME
	Access kube.Access // of the API server with that Secret
}

// Complete completes a place by the variables of the environment, and judges it.
func (p *AuthorityStore) Complete(variable func(string) string, userAgent string) error {
	if p.Dir == "" && p.Secret == "" {
		if p.Secret = variable("PILOTLIGHT_CA_SECRET"); p.Secret == "" {
			p.Dir = variable("PILOTLIGHT_CA_DIR")
		}
	}
	p.Access.UserAgent = userAgent
	p.Access.File = cmp.Or(p.Access.File, kube.PersonsFile(variable("KUBECONFIG"), variable("HOME")))
	if _, err := ParseName(p.Secret); err != nil {
		return fmt.Errorf("--caSecret %w", err)
	}
	if p.Secret != "" {
		if p.Dir != "" {
			return errors.New("--caDir and --caSecret are given, want one place")
		}
		return nil
	}
	dir, err := dirOf(p.Dir)
	if err != nil {
		return fmt.Errorf("--caDir: %w", err)
	}
	p.Dir = dir
	return nil
}

// at is where the Secret is, which Settle has judged.
func (p AuthorityStore) at() kubernetes.At {
	name, _ := ParseName(p.Secret)
	return kubernetes.At(name)
}

// tokens are the join tokens of an authority.
type tokens interface {
	Create(ctx context.Context, namespace, account string, ttl time.Duration, once bool, now time.Time) (ca.Token, string, error)
	List(ctx context.Context) (ca.Tokens, error)
	Revoke(ctx context.Context, id string) error
}

func (p AuthorityStore) tokens() tokens {
	if p.Secret != "" {
		return &kubernetes.Tokens{Connect: p.Access.Client, In: kubernetes.TokensBeside(p.at())}
	}
	return store.Tokens(p.Dir)
}

// CreateToken makes a join token, writes its text into a file that only its user reads, or prints it to out where file
// is "", and returns what to say of it.
func (p AuthorityStore) CreateToken(ctx context.Context, out io.Writer, file, namespace, account string, ttl time.Duration, once bool) (string, error) {
	made, text, err := p.tokens().Create(ctx, namespace, account, ttl, once, time.Now())
	if err != nil {
		return "", fmt.Errorf("create a join token: %w", err)
	}
	said := fmt.Sprintf("join token %s of %s/%s, valid until %s", made.ID, namespace, account, made.Expires.Format(time.RFC3339))
	if file == "" {
		_, err = fmt.Fprintln(out, text)
	} else if err = store.WriteText(file, text); err != nil {
		err = fmt.Errorf("write the join token, which is valid: %w; discovery token revoke %s ends it", err, made.ID)
	}
	return said, err
}

// ListTokens prints a table of the join tokens.
func (p AuthorityStore) ListTokens(ctx context.Context, out io.Writer) error {
	all, err := p.tokens().List(ctx)
	if err != nil {
		return fmt.Errorf("list join tokens: %w", err)
	}
	return store.Table(out, all, time.Now())
}

// RevokeToken ends a join token.
func (p AuthorityStore) RevokeToken(ctx context.Context, id string) error {
	if err := p.tokens().Revoke(ctx, id); err != nil {
		return fmt.Errorf("revoke a join token: %w", err)
	}
	return nil
}

// Status prints which root signs, and how far its rotation is.
func (p AuthorityStore) Status(ctx context.Context, out io.Writer) error {
	state, last, err := p.state(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	if r := state.Rotation; r.Phase != "" {
		return printRotation(out, r)
	}
	ended := ""
	if last.Phase != "" {
		ended = fmt.Sprintf("; the last rotation ended after %s", last.Until.Format(time.RFC3339))
	}
	_, err = fmt.Fprintf(out, "root %.16s, issuer %s, until %s: it is not being rotated%s\n",
		state.Authority.Root(), state.Authority.Name(), state.Authority.Ends().UTC().Format(time.RFC3339), ended)
	return err
}

func printRotation(out io.Writer, r ca.Rotation) error {
	_, err := fmt.Fprintf(out, "from root %.16s to %.16s, %s: %s\n", r.Old, r.New, r.Phase, r.Waits)
	return err
}

// state returns the authority, and its last rotation.
func (p AuthorityStore) state(ctx context.Context, now time.Time) (ca.State, ca.Rotation, error) {
	if p.Secret == "" {
		state, err := store.Read(p.Dir, now)
		if err != nil {
			return ca.State{}, ca.Rotation{}, err
		}
		last, err := store.Last(p.Dir)
		return ca.State(state), last, err
	}
	client, err := p.Access.Client()
	if err != nil {
		return ca.State{}, ca.Rotation{}, err
	}
	defer client.Close()
	return kubernetes.Roots{Client: client, In: p.at()}.State(ctx, now)
}

// Rotate begins to replace the root, or prints how far that is. With abort it keeps the old one; within a life of the
// last rotation it begins none but again.
func (p AuthorityStore) Rotate(ctx context.Context, out io.Writer, abort, again bool) (err error) {
	var r ca.Rotation
	switch {
	case p.Secret != "":
		r, err = p.rotateShared(ctx, abort, again)
	case abort:
		err = store.Abort(p.Dir, time.Now())
	default:
		r, err = store.Rotate(p.Dir, again, time.Now())
	}
	switch {
	case err != nil:
		return fmt.Errorf("rotate the root: %w", err)
	case abort:
		_, err = fmt.Fprintln(out, "the rotation is aborted: the root is the one before, and a running discovery forgets the other within seconds")
	default:
		err = printRotation(out, r)
	}
	return err
}

// RotateNow has the successor of the root used at once, and prints what breaks.
func (p AuthorityStore) RotateNow(out io.Writer) error {
	if p.Secret != "" {
		return errors.New("--now is for --caDir: replicas use a Secret that was changed when they start again, so change it and restart all of them")
	}
	r, err := store.EndNow(p.Dir, time.Now())
	if err != nil {
		return fmt.Errorf("rotate the root: %w", err)
	}
	_, err = fmt.Fprintf(out, `root %.16s is used at once: by a running discovery within seconds, and by one that starts
What breaks, where another root was in use:
- an agent that does not trust this root is refused by those that have its certificates, and refuses them; nor does it reach discovery. Give it this root-cert.pem as
  --caRoots, and a token as --caToken
- until then it trusts the root of before, and certificates that the key of before has signed
- certificates of another issuer below this same root stay valid until they end: against a leaked key of such an issuer, use another root
`, r.New)
	return err
}

func (p AuthorityStore) rotateShared(ctx context.Context, abort, again bool) (ca.Rotation, error) {
	client, err := p.Access.Client()
	if err != nil {
		return ca.Rotation{}, err
	}
	defer client.Close()
	roots := kubernetes.Roots{Client: client, In: p.at()}
	if abort {
		return ca.Rotation{}, roots.Abort(ctx, time.Now())
	}
	return roots.Rotate(ctx, again, time.Now())
}

// Store is a store whose objects a person reads and changes.
type Store interface {
	Apply(ctx context.Context, w config.Written) (verb, revision string, err error)
	Objects(ctx context.Context, kind, namespace, name string) ([]config.Written, error)
	Delete(ctx context.Context, kind, namespace, name string) error
}

// OpenStore opens the store of a directory, or, if that is empty, of an API server, and returns a function that closes
// it. With force, Apply takes over fields that another program has applied there.
func OpenStore(dir string, access kube.Access, force bool) (Store, func(), error) {
	if dir != "" {
		d, err := file.OpenDirectory(dir)
		return directory{d}, func() {}, err
	}
	client, err := access.Client()
	if err != nil {
		return nil, nil, err
	}
	return configs.NewStore(client, force), client.Close, nil
}

// directory is a Store of files.
type directory struct{ *file.Directory }

func (d directory) Apply(_ context.Context, w config.Written) (verb, revision string, err error) {
	return d.Directory.Apply(w)
}

func (d directory) Objects(_ context.Context, kind, namespace, name string) ([]config.Written, error) {
	return d.Directory.Objects(kind, namespace, name), nil
}

func (d directory) Delete(_ context.Context, kind, namespace, name string) error {
	return d.Directory.Delete(kind + "/" + namespace + "/" + name)
}

// maxInjection bounds the files of the webhook's configuration and template, in bytes.
const maxInjection = 16 << 20

// Injector returns what injects by the files of the flags --config and --template; "" is the default of each. They beat
// domain and native.
func Injector(configFile, templateFile, domain string, native bool) (*inject.Injector, error) {
	var text []byte
	var err error
	if configFile != "" {
		if text, err = safefile.Read(configFile, maxInjection); err != nil {
			return nil, err
		}
	}
	c, err := inject.ReadConfig(string(text))
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", configFile, err)
	}
	if c.NativeSidecar == nil {
		c.NativeSidecar = &native
	}
	c.ClusterDomain = cmp.Or(c.ClusterDomain, domain)
	if templateFile == "" {
		return inject.New(c, inject.DefaultTemplate)
	}
	text, err = safefile.Read(templateFile, maxInjection)
	if err != nil {
		return nil, err
	}
	i, err := inject.New(c, string(text))
	if err != nil {
		return nil, fmt.Errorf("--template %s: %w", templateFile, err)
	}
	return i, nil
}

// MeshOfFiles returns the mesh of files with objects and a file of MeshConfig, "" for none, for what they set for
// proxies, with their problems, of MeshConfig only those about proxies.
func MeshOfFiles(paths []string, meshFile string, stdin io.Reader) (*model.Mesh, []config.Problem, error) {
	files, err := file.ReadEach(paths, stdin)
	if err != nil {
		return nil, nil, err
	}
	objects, problems := file.Check(files)
	if meshFile != "" {
		o, found := file.ReadSettings("MeshConfig", meshFile)
		if o != nil {
			objects = append(objects, o)
		}
		problems = append(problems, slices.DeleteFunc(found, func(p config.Problem) bool {
			return p.Severity != config.Error && !strings.HasPrefix(p.Path, "defaultConfig.")
		})...)
	}
	if config.HasErrors(problems) {
		return nil, problems, errors.New("configuration has errors: what it says is not known")
	}
	return model.New(slices.Values([]model.Group{{Objects: objects}})), problems, nil
}

// LayersOfFiles returns what such files set for the proxies of Pods, with their problems; nil if there are none.
func LayersOfFiles(paths []string, meshFile string, stdin io.Reader) (inject.Layers, []config.Problem, error) {
	if len(paths) == 0 && meshFile == "" {
		return nil, nil, nil
	}
	mesh, problems, err := MeshOfFiles(paths, meshFile, stdin)
	if err != nil {
		return nil, problems, err
	}
	return func(namespace string, labels map[string]string) ([]inject.Layer, error) {
		return Layers(mesh, namespace, labels)
	}, problems, nil
}
