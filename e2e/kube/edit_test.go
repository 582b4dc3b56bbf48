//go:build kube

package kube

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// command runs discovery as a person does who has the rights of a user, and returns what it prints on both streams.
func command(t *testing.T, kubeconfig, stdin string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(lab.New(t.TempDir()).Bin, "discovery"), append(args, "--kubeconfig", kubeconfig, "--context", "test")...)
	cmd.Stdin = strings.NewReader(stdin)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	return text.String(), err
}

// Objects are applied to the API server, changed, printed and deleted. What it refuses is printed in its own words, and the others are
// written all the same.
func TestApply(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	admin, stranger := c.kubeconfig("admin"), c.kubeconfig("stranger")
	run := func(fails bool, want, stdin string, args ...string) string {
		t.Helper()
		out, err := command(t, admin, stdin, args...)
		if (err != nil) != fails || !strings.Contains(out, want) {
			t.Errorf("discovery %s ends with %v and prints %s, want %q", strings.Join(args, " "), err, out, want)
		}
		return out
	}
	run(true, "want Istio's definitions installed there", entry("early"), "apply", "-f", "-")
	run(true, "the API server has no ServiceEntry: want Istio's definitions", "", "get", "se")
	hand.apply(istioDefinitions(t))
	run(false, "ServiceEntry default/a created, revision ", entry("a"), "apply", "-f", "-")
	run(false, "ServiceEntry default/a unchanged, revision ", entry("a"), "apply", "-f", "-")
	both := rule("r", "a.test", "a.test") + "\n---" + strings.Replace(entry("a"), "number: 80", "number: 81", 1)
	out := run(false, "VirtualService default/r created, revision ", both, "apply", "-f", "-")
	if !strings.Contains(out, "ServiceEntry default/a configured, revision ") {
		t.Errorf("it prints %s", out)
	}
	run(true, "nothing is written", rule("r", "echo_", "a.test"), "apply", "-f", "-")

	// Another program has applied it too: its fields are not taken away unasked.
	hand.apply(rule("r", "b.test", "a.test"))
	run(true, "with --force-conflicts", rule("r", "c.test", "a.test")+"\n---"+entry("other"), "apply", "-f", "-")
	run(false, "ServiceEntry default/other", "", "get", "se", "-o", "name")
	run(false, "VirtualService default/r configured", rule("r", "c.test", "a.test"), "apply", "-f", "-", "--force-conflicts")

	// What is printed can be applied again, its status included.
	text := run(false, "c.test", "", "get", "vs", "r", "-o", "yaml")
	run(false, "VirtualService default/r unchanged", text, "apply", "-f", "-", "--force-conflicts")
	run(false, "default     r      ", "", "get", "virtualservices", "-A")
	run(false, "VirtualService default/r deleted", "", "delete", "vs", "r")
	run(true, "VirtualService default/r: is not there", "", "delete", "vs", "r")
	run(false, "ServiceEntry default/a deleted", entry("a"), "delete", "-f", "-")
	if out, err := command(t, stranger, entry("x"), "apply", "-f", "-"); err == nil || !strings.Contains(out, "forbidden") {
		t.Errorf("without rights it ends with %v and prints %s", err, out)
	}
	c.stop()
	run(true, "connection refused", entry("x"), "apply", "-f", "-")
	c.start()
}
