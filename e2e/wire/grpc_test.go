//go:build wire

package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// language is a gRPC that is configured by xDS: the program that is its client and its server.
type language struct {
	name string
	argv []string
	env  []string
}

func languages(t *testing.T) []language {
	java := func(name string) language {
		dir := lab.Path("bin", "peers", name)
		return language{name: name, argv: append(lab.Java(t),
			"-Xmx128m", "-cp", dir+":"+filepath.Join(dir, "*"), "Peer",
		)}
	}
	return []language{
		{name: "go", argv: []string{lab.Program("peer")}},
		{name: "python", argv: []string{"python3", "python/peer.py"}, env: []string{"PYTHONPATH=" + lab.Path("bin", "peers", "python")}},
		java("java"), java("java-1.68.0"),
	}
}

// bootstrapOf writes the file of GRPC_XDS_BOOTSTRAP.
func (w *world) bootstrapOf(name string) string {
	w.T.Helper()
	path := filepath.Join(w.Dir, name+".json")
	w.check(os.WriteFile(path, fmt.Appendf(nil, `{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
		"node": {"id": "sidecar~%s1~%s.default~default.svc.cluster.local", "metadata": {"GENERATOR": "grpc"}},
		"server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%%s"
	}`, w.discovery.GRPC, w.Addresses, name), 0o600))
	return path
}

// client starts a program that calls the targets, of our discovery, every 20 ms.
func (w *world) client(l language, name string, targets ...string) calls {
	w.T.Helper()
	name = l.name + "-" + name
	return calls{w.start(lab.Spec{
		Name: name, Env: append(l.env, "GRPC_XDS_BOOTSTRAP="+w.bootstrapOf(name)),
		Argv: append(append(l.argv, "client", "20"), targets...),
	}), w}
}

// server starts a program that asks our discovery for its listener, and returns its port of all addresses.
func (w *world) server(l language, name string) int {
	w.T.Helper()
	port := lab.Port(w.T)
	w.start(lab.Spec{
		Name: l.name + "-server", Env: append(l.env, "GRPC_XDS_BOOTSTRAP="+w.bootstrapOf(l.name+"-server")),
		Argv: append(append(l.argv, "server"), strconv.Itoa(port), name),
	})
	return port
}

// plain starts a server of gRPC that knows nothing of xDS, waits until it listens, and returns its port.
func (w *world) plain(name string) int {
	w.T.Helper()
	port := lab.Port(w.T)
	w.start(lab.Spec{Name: "plain-" + name, Argv: []string{lab.Program("peer"), "server", strconv.Itoa(port), name}})
	w.check(lab.Eventually(stopLimit, func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			err = c.Close()
		}
		return err
	}))
	return port
}

// calls are those that a client made.
type calls struct {
	*lab.Process
	w *world
}

// call is one of them: its answer, or its error.
type call struct {
	at          time.Time
	answer, err string
}

// of returns the calls of a target since a time.
func (c calls) of(target string, since time.Time) (out []call) {
	for line := range strings.Lines(c.Log()) {
		at, rest, _ := strings.Cut(line, " ")
		result, ours := strings.CutPrefix(rest, target+" ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if !ours || err != nil || !strings.HasSuffix(line, "\n") || time.UnixMilli(ms).Before(since) {
			continue
		}
		made := call{at: time.UnixMilli(ms)}
		made.answer, _ = strings.CutPrefix(strings.TrimSpace(result), "ok ")
		if text, failed := strings.CutPrefix(strings.TrimSpace(result), "error "); failed {
			made.answer, made.err = "", text
		}
		out = append(out, made)
	}
	return out
}

// await waits until a call that was made from now on fits, and returns how long that took.
func (c calls) await(target string, fits func(call) bool) time.Duration {
	c.w.T.Helper()
	since := time.Now()
	var found call
	c.w.check(lab.Eventually(30*time.Second, func() error {
		made := c.of(target, since)
		for _, found = range made {
			if fits(found) {
				return nil
			}
		}
		if len(made) == 0 {
			return fmt.Errorf("%s: no call of %s was answered", c.Name, target)
		}
		return fmt.Errorf("%s: %d calls of %s, the last one %+v", c.Name, len(made), target, made[len(made)-1])
	}))
	return found.at.Sub(since)
}

// answered is a call with this answer, refused one whose error has this text.
func answered(by string) func(call) bool { return func(c call) bool { return c.answer == by } }

func refused(text string) func(call) bool {
	return func(c call) bool { return c.err != "" && strings.Contains(c.err, text) }
}

// last returns the last call of a target.
func (c calls) last(target string) string {
	made := c.of(target, time.Time{})
	if len(made) == 0 {
		return "no call"
	}
	return made[len(made)-1].answer + made[len(made)-1].err
}

// unharmed reports the calls of a target since a time that failed.
func (c calls) unharmed(target string, since time.Time) {
	c.w.T.Helper()
	made, failed := c.of(target, since), 0
	for _, m := range made {
		if m.err != "" {
			if failed++; failed <= 3 {
				c.w.T.Errorf("%s: a call of %s failed: %s", c.Name, target, m.err)
			}
		}
	}
	if len(made) == 0 {
		c.w.T.Errorf("%s: no call of %s", c.Name, target)
	}
	c.w.T.Logf("%s: %d calls of %s, %d failed", c.Name, len(made), target, failed)
}
