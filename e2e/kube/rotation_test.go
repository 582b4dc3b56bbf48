//go:build kube

package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// shared runs commands for an authority that replicas share, as an administrator.
type shared struct {
	cluster *cluster
	secret  string
}

func (s shared) try(arguments ...string) (string, error) {
	s.cluster.t.Helper()
	all := append(arguments, "--caSecret", s.secret, "--kubeconfig", s.cluster.kubeconfigOf("admin", "test"))
	command := exec.CommandContext(s.cluster.t.Context(), lab.Path("bin", "discovery"), all...)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return strings.TrimSpace(string(out)), err
}

func (s shared) run(arguments ...string) string {
	s.cluster.t.Helper()
	out, err := s.try(arguments...)
	check(s.cluster.t, err)
	return out
}

// Replicas replace the root that they share: each namespace gets both roots before the new one signs, and the new one alone at the end. The API server is
// away in the middle, one replica is killed, another one starts, and each certificate that lives is of a root that all trust. Join tokens are shared too.
func TestSharedRotation(t *testing.T) { lab.InNetworkNamespace(t, sharedRotation) }

func sharedRotation(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(sharedRights)
	web := w.hand.account("shop", "web", "web-1")
	token := w.hand.tokenFor("shop", "web", "istio-ca", web)
	commands := shared{w.cluster, "default/cacerts"}
	dir := t.TempDir()
	start := func() (*lab.Discovery, string) {
		t.Helper()
		at := "127.0.0.1:" + port(t)
		return w.replica(lab.New(t.TempDir()), "--ca", "--caSecret", "default/cacerts", "--caTTL", "10s", "--caMaxTTL", "10s", "--secureGRPCAddr", at,
			"--leaseNamespace", "default", "--registrySyncTimeout", "3s"), at
	}
	first, one := start()
	_, two := start()
	published := func() string {
		o := w.hand.parse("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-ca-root-cert, namespace: shop}")
		found, err := w.hand.resource(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			return ""
		}
		text, _, _ := unstructured.NestedString(found.Object, "data", "root-cert.pem")
		return text
	}
	var trusted []string // the roots that were published, each once
	publishes := func(n int) {
		t.Helper()
		var text string
		check(t, lab.Eventually(2*time.Minute, func() error {
			if text = published(); strings.Count(text, "BEGIN") != n || len(trusted) > 0 && trusted[len(trusted)-1] == text {
				return fmt.Errorf("published is %d roots, want %d others", strings.Count(text, "BEGIN"), n)
			}
			return nil
		}))
		trusted = append(trusted, text)
		check(t, os.WriteFile(filepath.Join(dir, "root-cert.pem"), []byte(text), 0o600))
	}
	publishes(1)
	signed := func(at string) (certified, error) {
		answer, code := newCertifier(t, at, dir).whole(token)
		if answer.Identity == "" {
			return answer, fmt.Errorf("%s answers %d, %v", at, code, answer.failed)
		}
		return answer, nil
	}
	for _, at := range []string{one, two} {
		check(t, lab.Eventually(time.Minute, func() error { _, err := signed(at); return err }))
	}
	before, err := signed(one)
	check(t, err)

	// A join token that may be used once is used at one replica, and then nowhere for another key; one that is revoked is that everywhere at once.
	joins := commands.run("token", "create", "--namespace", "shop", "--service-account", "vm", "--once")
	at := newCertifier(t, one, dir)
	if identity, code := at.ask(joins); identity != "spiffe://cluster.local/ns/shop/sa/vm" {
		t.Fatalf("a join token brings %q, %d", identity, code)
	}
	at.at = two
	if identity, code := at.ask(joins); identity == "" {
		t.Errorf("the same key at another replica: %d", code)
	}
	if identity, code := newCertifier(t, two, dir).ask(joins); code != 401 {
		t.Errorf("another key at another replica: %q, %d", identity, code)
	}
	if list := commands.run("token", "list"); !strings.Contains(list, "used") || strings.Contains(list, joins[len(joins)-20:]) {
		t.Errorf("the list is %s", list)
	}
	commands.run("token", "revoke", strings.Split(joins, "-")[1])
	at.at = one
	if identity, code := at.ask(joins); code != 401 {
		t.Errorf("a token that is revoked brings %q, %d", identity, code)
	}

	if out := commands.run("ca", "rotate"); !strings.Contains(out, ", begun: ") {
		t.Errorf("rotate says %q", out)
	}
	publishes(2)
	for _, at := range []string{one, two} {
		check(t, lab.Eventually(time.Minute, func() error {
			answer, err := signed(at)
			if err == nil && strings.Count(answer.Roots, "BEGIN") != 2 {
				err = fmt.Errorf("%s answers with %d roots", at, strings.Count(answer.Roots, "BEGIN"))
			}
			if err == nil && answer.by(t) != before.by(t) {
				t.Errorf("%s: the new root has signed too early", at)
			}
			return err
		}))
	}
	check(t, lab.Eventually(time.Minute, func() error {
		if out := commands.run("ca", "rotate"); !strings.Contains(out, ", trust: ") || !strings.Contains(out, "certificates that are known came with both roots") {
			return errors.New(out)
		}
		return nil
	}))

	// The API server is away, a replica is killed, and another one comes.
	w.stop()
	first.Stop(stopLimit)
	joined := commands
	if out, err := joined.try("ca", "rotate"); err == nil {
		t.Errorf("without an API server rotate says %q", out)
	}
	w.start()
	_, three := start()
	check(t, lab.Eventually(2*time.Minute, func() error {
		for _, at := range []string{two, three} {
			answer, err := signed(at)
			if err != nil {
				return err
			}
			if answer.by(t) == before.by(t) {
				return fmt.Errorf("%s: the old root signs", at)
			}
			if strings.Count(answer.Roots, "BEGIN") != 2 && strings.Count(published(), "BEGIN") == 2 {
				return fmt.Errorf("%s answers with %d roots", at, strings.Count(answer.Roots, "BEGIN"))
			}
		}
		return nil
	}))
	if _, err := joined.try("ca", "rotate", "--abort"); err == nil || !strings.Contains(err.Error(), "the new root has signed") && !strings.Contains(err.Error(), "no root is being rotated") {
		t.Errorf("a late abort: %v", err)
	}
	publishes(1)
	for _, at := range []string{two, three} {
		check(t, lab.Eventually(time.Minute, func() error { // by the new root, which signs its own certificate too
			answer, err := signed(at)
			if err == nil && (answer.by(t) == before.by(t) || strings.TrimSpace(answer.Roots) != strings.TrimSpace(trusted[2])) {
				err = fmt.Errorf("%s signs by the old root, or does not trust what is published", at)
			}
			return err
		}))
	}
	content := w.cluster.output("kubectl -n default get secret cacerts -o jsonpath='{.data}'")
	if strings.Contains(content, "next.pem") || strings.Contains(content, `"rotation.json"`) || !strings.Contains(content, "last-rotation.json") || !strings.Contains(content, "former-roots") {
		t.Error("the Secret holds a rotation that has ended, or does not name the former root")
	}
}
