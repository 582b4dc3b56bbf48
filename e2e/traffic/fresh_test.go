package traffic

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// page is a folder in which the commands of a page of the documentation run, as they are printed there.
type page struct {
	t    *testing.T
	dir  string
	path string // PATH
}

// commands runs those of a block: one that serves in the background, another to its end.
func (p page) commands(block string) {
	p.t.Helper()
	for command := range strings.Lines(block) {
		c := exec.CommandContext(p.t.Context(), "/bin/sh", "-c", "exec env "+command) // env reads the variables before a command
		c.Dir, c.Env = p.dir, []string{"PATH=" + p.path}
		if strings.Contains(command, " serve ") || strings.Contains(command, " proxy ") {
			process, err := lab.Start(lab.Spec{Name: "command", Dir: p.t.TempDir(), Work: p.dir, Env: c.Env, Argv: c.Args})
			if err != nil {
				p.t.Fatal(err)
			}
			p.t.Cleanup(func() {
				process.Stop(lab.StopLimit)
				if p.t.Failed() {
					p.t.Logf("%s%s", command, lab.Tail(process.Log()))
				}
			})
			continue
		}
		if out, err := c.CombinedOutput(); err != nil {
			p.t.Fatalf("%s%v: %s", command, err, out)
		}
	}
}

// The commands of docs/certificates.md, on a machine that has nothing: four bring mutual TLS between two services, three more and
// one copied file a further machine, each within 15 s. No other program makes a key or a certificate.
func TestFourCommandsOnAFreshMachine(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) {
		dir, bin := lab.ShortDir(t), t.TempDir()
		write := func(path, text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p := page{t, dir, lab.Programs() + ":" + bin + ":/usr/bin:/bin"}
		if err := os.Mkdir(filepath.Join(dir, "mesh"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(dir, "mesh", "web.yaml"), lab.Code(t, "docs/certificates.md", "yaml")[0])
		l, err := net.Listen("tcp", "127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		program := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "from "+r.Header.Get("x-forwarded-client-cert"))
		})}
		go program.Serve(l)
		t.Cleanup(func() { program.Close() })

		all := lab.Code(t, "docs/certificates.md", "sh")
		if n := strings.Count(all[0], "\n"); n != 4 || len(all) != 2 {
			t.Errorf("the page has %d commands and %d blocks, want 4 and 2", n, len(all))
		}
		watch := lab.StartStopwatch()
		p.commands(all[0])
		answered(t, "15080", "spiffe://cluster.local/ns/default/sa/web")
		watch.Within(t, 15*time.Second, "from the first command to the first request over mutual TLS")
		t.Logf("two services: %s", watch.Took())
		if c, err := net.Dial("tcp", "127.0.0.2:9080"); err != nil {
			t.Error(err)
		} else {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: web\r\n\r\n")
			if answer, _ := io.ReadAll(c); len(answer) > 0 {
				t.Errorf("plain text is answered: %q", answer)
			}
		}

		// A further machine: other programs take the place of those that reach the first one, which has the name localhost here.
		other := page{t, lab.ShortDir(t), p.path}
		write(filepath.Join(bin, "scp"), "#!/bin/sh\nexec cp "+dir+"/${1#*:} $2\n")
		write(filepath.Join(bin, "ssh"), "#!/bin/sh\nshift; cd "+dir+" && exec \"$@\"\n")
		watch = lab.StartStopwatch()
		other.commands(strings.ReplaceAll(all[1], "first:15012", "localhost:15012"))
		answered(t, "15081", "spiffe://cluster.local/ns/default/sa/shop")
		watch.Within(t, 15*time.Second, "from the first command on a further machine to its first request")
		t.Logf("a further machine: %s", watch.Took())
	})
}

// answered waits until a request through a sidecar's outbound proxy arrives from this identity.
func answered(t *testing.T, port, identity string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		body, err := lab.GetThrough("127.0.0.1:"+port, "http://web:9080/")
		if err == nil && !strings.Contains(body, "URI="+identity) {
			err = fmt.Errorf("the program reads of the client %q", body)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
