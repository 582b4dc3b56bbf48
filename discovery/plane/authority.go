package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Place is where an authority is stored, for the commands of a person: in the files of Dir, or in a Secret that replicas share.
type Place struct {
	Dir    string
	Secret string      // NAMESPACE/NAME
	Access kube.Access // of the API server with that Secret
}

// Settle completes a place by the variables of the environment, and judges it.
func (p *Place) Settle(variable func(string) string, userAgent string) error {
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
func (p Place) at() kubernetes.At {
	name, _ := ParseName(p.Secret)
	return kubernetes.At(name)
}

// tokens are the join tokens of an authority.
type tokens interface {
	Create(ctx context.Context, namespace, account string, ttl time.Duration, once bool, now time.Time) (ca.Token, string, error)
	List(ctx context.Context) (ca.Tokens, error)
	Revoke(ctx context.Context, id string) error
}

func (p Place) tokens() tokens {
	if p.Secret != "" {
		return &kubernetes.Tokens{Connect: p.Access.Client, In: kubernetes.TokensBeside(p.at())}
	}
	return store.Tokens(p.Dir)
}

// CreateToken makes a join token, writes its text into a file that only its user reads, or prints it to out where file is "", and returns what
// to say of it.
func (p Place) CreateToken(ctx context.Context, out io.Writer, file, namespace, account string, ttl time.Duration, once bool) (string, error) {
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
func (p Place) ListTokens(ctx context.Context, out io.Writer) error {
	all, err := p.tokens().List(ctx)
	if err != nil {
		return fmt.Errorf("list join tokens: %w", err)
	}
	return store.Table(out, all, time.Now())
}

// RevokeToken ends a join token.
func (p Place) RevokeToken(ctx context.Context, id string) error {
	if err := p.tokens().Revoke(ctx, id); err != nil {
		return fmt.Errorf("revoke a join token: %w", err)
	}
	return nil
}

// Status prints which root signs, and how far its rotation is.
func (p Place) Status(ctx context.Context, out io.Writer) error {
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
func (p Place) state(ctx context.Context, now time.Time) (ca.State, ca.Rotation, error) {
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

// Rotate begins to replace the root, or prints how far that is. With abort it keeps the old one; within a life of the last rotation it begins none
// but again.
func (p Place) Rotate(ctx context.Context, out io.Writer, abort, again bool) (err error) {
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
func (p Place) RotateNow(out io.Writer) error {
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

func (p Place) rotateShared(ctx context.Context, abort, again bool) (ca.Rotation, error) {
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
