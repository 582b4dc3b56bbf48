package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/atomicfile"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const tokensFile = "join-tokens.json"

// Tokens are the join tokens in the directory of an authority.
type Tokens string

// Create makes a join token for a service account, and returns its secret text too.
func (t Tokens) Create(_ context.Context, namespace, account string, ttl time.Duration, once bool, now time.Time) (made ca.Token, text string, err error) {
	if err := os.MkdirAll(string(t), 0o700); err != nil {
		return ca.Token{}, "", fmt.Errorf("make the directory of the authority: %w", err)
	}
	if err := t.readable(); err != nil {
		return ca.Token{}, "", err
	}
	err = t.change(func(all ca.Tokens) (ca.Tokens, error) {
		all, made, text, err = all.Add(namespace, account, ttl, once, now)
		return all, err
	})
	return made, text, err
}

// WriteText writes the text of a join token into a file that only its user reads.
func WriteText(file, text string) error {
	return atomicfile.Write(file+".new", file, []byte(text+"\n"), 0o600)
}

// List returns all join tokens.
func (t Tokens) List(_ context.Context) (ca.Tokens, error) {
	path := filepath.Join(string(t), tokensFile)
	text, err := safefile.Read(path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := judge(path, true); err != nil {
		return nil, err
	}
	all, err := ca.ReadTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Revoke revokes a join token. Certificates that it has brought live on, and are renewed.
func (t Tokens) Revoke(_ context.Context, id string) error {
	if err := t.readable(); err != nil {
		return err
	}
	return t.change(func(all ca.Tokens) (ca.Tokens, error) { return all.Revoke(id) })
}

// readable returns an error where root would make the file one that discovery cannot read, so that no machine could
// join, or a lock that it cannot take.
func (t Tokens) readable() error { return readable(string(t), tokensFile, lockFile, ca.KeyFile) }

// Redeem returns the join token of a text that is shown with a key. Its use is stored before it returns.
func (t Tokens) Redeem(_ context.Context, text string, key ca.Key, now time.Time) (used ca.Token, err error) {
	err = t.change(func(all ca.Tokens) (ca.Tokens, error) {
		next, token, err := all.Redeem(text, key, now)
		used = token
		if err == nil && !all.Changes(token) {
			return nil, nil
		}
		return next, err
	})
	return used, err
}

// change stores what do makes of the tokens, unless that is nil.
func (t Tokens) change(do func(ca.Tokens) (ca.Tokens, error)) error {
	return locked(string(t), func() error {
		all, err := t.List(context.Background())
		if err != nil {
			return err
		}
		next, err := do(all)
		if err != nil || next == nil {
			return err
		}
		text, err := next.Bytes()
		if err != nil {
			return err
		}
		return write(string(t), tokensFile, text, 0o600)
	})
}

// Table writes tokens as a table, with their states at a time.
func Table(w io.Writer, all ca.Tokens, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAMESPACE\tSERVICE ACCOUNT\tSTATE\tONCE\tEXPIRES\tLAST USED")
	for _, t := range all {
		used := "never"
		if !t.Used.IsZero() {
			used = t.Used.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%t\t%s\t%s\n", t.ID, t.Namespace, t.ServiceAccount, t.State(now), t.Once, t.Expires.Format(time.RFC3339), used)
	}
	return table.Flush()
}
