//go:build browser

package page

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// browser is a Chromium with one page, spoken to by its protocol over pipes.
type browser struct {
	t               *testing.T
	to              io.Writer
	target, session string // of its page

	mu       sync.Mutex
	last     int
	answers  map[int]chan message
	faults   []string // of the console, and exceptions
	requests []string // URLs
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// program finds Chromium: Debian's headless one, else the whole.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium-headless-shell: envoy-tools/packages page installs it")
	return ""
}

// openBrowser starts Chromium with an empty page, until the test ends.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t, answers: map[int]chan message{}}
	in, to, err := os.Pipe()
	b.check(err)
	from, out, err := os.Pipe()
	b.check(err)
	b.to = to
	// As root, as on a machine of CI, Chromium has no sandbox; it reads nothing but the page of this test.
	cmd := exec.Command(program(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--disable-extensions", "--disable-sync", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	b.check(cmd.Start())
	_, _ = in.Close(), out.Close()
	t.Cleanup(func() {
		_ = to.Close() // it ends by that; the group is for what it has started
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	go b.listen(from)
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.target = target.TargetID
	b.attach()
	return b
}

// attach begins a session with the page in place of the one before: its counts begin at 0. It sets what another version
// of the browser may choose otherwise: the size, the colours and the focus.
func (b *browser) attach() {
	b.t.Helper()
	before := b.session
	b.session = ""
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": b.target, "flatten": true}, &session)
	if before != "" {
		b.call("Target.detachFromTarget", map[string]any{"sessionId": before}, nil)
	}
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Performance"} {
		b.call(domain+".enable", nil, nil)
	}
	b.size(1280, 1250)
	b.media("prefers-color-scheme", "light")
	b.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
}

// size sets the size of the window.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// navigate leads the page to a URL, and returns once it is there.
func (b *browser) navigate(url string) {
	b.t.Helper()
	var answer struct{ ErrorText string }
	if b.call("Page.navigate", map[string]any{"url": url}, &answer); answer.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, answer.ErrorText)
	}
}

func (b *browser) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// listen passes on answers, and collects what the page says and asks for.
func (b *browser) listen(from io.Reader) {
	read := bufio.NewReader(from)
	for {
		text, err := read.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		switch answer := b.answers[m.ID]; {
		case answer != nil:
			delete(b.answers, m.ID)
			answer <- m
		case m.Method == "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			_ = json.Unmarshal(m.Params, &sent) // Chromium's own
			b.requests = append(b.requests, sent.Request.URL)
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled":
			b.faults = append(b.faults, m.Method+": "+string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call calls a method, and reads its result.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	b.answers[b.last] = answer
	request := map[string]any{"id": b.last, "method": method}
	b.mu.Unlock()
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	b.check(err)
	_, err = b.to.Write(append(text, 0))
	b.check(err)
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			b.check(json.Unmarshal(m.Result, into))
		}
	case <-time.After(lab.StopLimit):
		b.t.Fatalf("%s has no answer", method)
	}
}

// eval returns the value of an expression in the page; a promise is awaited.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%.200s: %s", expression, answer.ExceptionDetails)
	}
	if into != nil {
		b.check(json.Unmarshal(answer.Result.Value, into))
	}
}

// await waits until an expression is true.
func (b *browser) await(limit time.Duration, expression string) {
	b.t.Helper()
	if err := lab.Eventually(limit, func() error {
		var holds bool
		if b.eval("document.readyState === 'complete' && !!("+expression+")", &holds); !holds {
			return fmt.Errorf("%s does not hold", expression)
		}
		return nil
	}); err != nil {
		var text string
		b.eval("document.body.innerText", &text)
		b.t.Fatalf("%v; the page is\n%s", err, text)
	}
}

// virtual are the keys that a page does not see as a text alone: a browser acts by their number.
var virtual = map[string]struct {
	code int
	text string
}{"Enter": {13, "\r"}, "Tab": {9, ""}}

// key presses a key, and a text is typed.
func (b *browser) key(key string) {
	b.t.Helper()
	press := map[string]any{"type": "keyDown", "key": key, "code": key, "text": key}
	if known, found := virtual[key]; found {
		press["windowsVirtualKeyCode"], press["text"] = known.code, known.text
	}
	b.call("Input.dispatchKeyEvent", press, nil)
	press["type"], press["text"] = "keyUp", ""
	b.call("Input.dispatchKeyEvent", press, nil)
}

// typed puts a text where the focus is, as a keyboard does.
func (b *browser) typed(text string) {
	b.t.Helper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// media emulates features of the device: pairs of a name and a value.
func (b *browser) media(pairs ...string) {
	b.t.Helper()
	features := []map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		features = append(features, map[string]string{"name": pairs[i], "value": pairs[i+1]})
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": features}, nil)
}

// axe reports what axe-core finds in the page as it is now, in light and in dark.
func (b *browser) axe(state string) {
	b.t.Helper()
	axe, err := os.ReadFile(lab.Path("bin", "axe.min.js"))
	b.check(err)
	b.eval(string(axe)+"; true", nil)
	for _, scheme := range []string{"light", "dark"} {
		b.media("prefers-color-scheme", scheme)
		var found []struct {
			ID, Help string
			Nodes    []struct{ HTML string }
		}
		b.eval("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}).then(r => r.violations)", &found)
		for _, v := range found {
			b.t.Errorf("axe-core, %s, %s: %s: %s: %+v", state, scheme, v.ID, v.Help, v.Nodes)
		}
	}
	b.media("prefers-color-scheme", "light")
}

// nothingWrong reports what the console has, and each request that went elsewhere.
func (b *browser) nothingWrong(base string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		b.t.Errorf("the console has %s", fault)
	}
	if i := slices.IndexFunc(b.requests, func(url string) bool { return !strings.HasPrefix(url, base) && url != "about:blank" }); i >= 0 {
		b.t.Errorf("the page asks for %s", b.requests[i])
	}
}

// screenshot writes what is seen.
func (b *browser) screenshot(path string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	b.check(err)
	b.check(os.WriteFile(path, picture, 0o644))
}
