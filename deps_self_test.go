package pilotlight_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// broken holds, for each rule, a file that breaks it: a rule that cannot fail guards nothing. IMPORTS of ours are
// written "./agent".
var broken = []struct{ path, source, fault string }{
	{"bootstrap/x.go", `import _ "./discovery/model"`, "the agent and discovery share"},
	{"discovery/inject/x.go", `import _ "./bootstrap"`, "the agent and discovery share"},
	{"discovery/server.go", `import _ "./discovery/config/file"`, "only the plane joins adapters"},
	{"discovery/registry/consul/x.go", `import _ "./discovery/registry/mock"`, "only the plane joins adapters"},
	{"agent/cert/x.go", `import _ "github.com/fsnotify/fsnotify"`, "watch is the one door"},
	{"agent/health/x.go", `import _ "os/exec"`, "child processes have these doors"},
	{"discovery/notes/x.go", `import _ "./discovery/ads"`, "notes are of a mesh"},
	{"discovery/ads/protocol/x.go", `import _ "sync"`, "no goroutine and no I/O"},
	{"discovery/ads/protocol/x.go", `import "time"; func f() time.Time { return time.Now() }`, "time is an argument"},
	{"discovery/ads/protocol/x.go", `import _ "./discovery/xds"`, "a response is decided from values"},
	{"discovery/ads/content/x.go", `import _ "./discovery/ads/protocol"`, "whichever package sends it"},
	{"discovery/ads/content/x.go", `func f() { go f() }`, "streams own the goroutines"},
	{"discovery/ads/content/x.go", `import _ "google.golang.org/grpc/codes"`, "streams own the goroutines"},
	{"discovery/ads/adstest/x.go", `import _ "./discovery/ads/content"`, "so it knows none of them"},
	{"discovery/keys/x.go", `import _ "./discovery/authz"`, "keys are fetched from wherever policies say"},
	{"discovery/acme/x.go", `import _ "./discovery/keys"`, "which certificates are needed"},
	{"discovery/acme/client/x.go", `import _ "./discovery/ads"`, "its caller says which gateways are connected"},
	{"discovery/acme/kubernetes/x.go", `import _ "./discovery/acme/client"`, "decides which replica orders"},
	{"discovery/x.go", `import _ "golang.org/x/crypto/acme"`, "one room speaks ACME"},
	{"discovery/statedir/kubernetes/x.go", `import _ "./discovery"`, "a Secret holds what a file could"},
	{"discovery/statedir/x.go", `import _ "./discovery"`, "groups are kept alike for every source"},
	{"discovery/ads/intake/x.go", `import _ "./discovery/model"`, "requests are counted by their lengths"},
	{"discovery/status/x.go", `import g "google.golang.org/grpc"; func f() { g.NewServer() }`, "ads is the one door"},
	{"discovery/ads/x.go", `import "runtime/debug"; func f() { debug.SetGCPercent(400) }`, "a process has one collector"},
	{"agent/x.go", `import _ "github.com/spf13/cobra"`, "flags belong to cmd"},
	{"discovery/x.go", `import "os"; func f() string { return os.Getenv("PILOT_X") }`, "the environment belongs to cmd"},
	{"discovery/ads/x.go", `import _ "go.opentelemetry.io/otel/sdk/trace"`, "where traces go"},
	{"agent/core.go", `func f() { go f() }`, "no goroutine and no I/O"},
	{"discovery/state.go", `import "log/slog"; func f(l *slog.Logger) { l.Info("x") }`, "no goroutine and no I/O"},
	{"discovery/xds/x.go", `import _ "net/http"`, "no goroutine and no I/O"},
	{"node/x.go", `import "time"; func f() time.Time { return time.Now() }`, "time is an argument"},
	{"discovery/ads/x.go", `import _ "k8s.io/api/core/v1"`, "Kubernetes' types stop"},
	{"discovery/kube/x.go", `import _ "k8s.io/client-go/kubernetes/typed/core/v1"`, "the clients of every API"},
	{"discovery/model/x.go", `import _ "github.com/hashicorp/consul/api"`, "the adapter asks Consul over HTTP"},
	{"discovery/model/x.go", `import _ "github.com/nats-io/nats.go"`, "NATS stops"},
	{"discovery/model/x.go", `import _ "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"`, "Envoy's types live"},
	{"discovery/ads/x.go", `import _ "istio.io/api/networking/v1alpha3"`, "Istio's types are"},
	{"discovery/plane/x.go", `import _ "istio.io/api/networking/v1alpha3"`, "no other's business"},
	{"watch/x.go", `import _ "./node"`, "the bottom of the house"},
	{"internal/local/x.go", `import _ "./node"`, "both halves ask what is local"},
	{"discovery/status/x.go", `import _ "./discovery/xds"`, "pages show what"},
	{"discovery/model/x.go", `import _ "./node"`, "the model stands on nothing of ours"},
	{"agent/envoy/x.go", `import _ "./cmd/agent"`, "not the commands"},
	{"bootstrap/x.go", `import _ "./agent"`, "made from parameters and text"},
	{"discovery/x.go", `import _ "./discovery/ads"`, "behind Pusher"},
	{"discovery/secret/x.go", `import _ "./discovery/model"`, "secrets go past the mesh"},
	{"discovery/secret/vault/x.go", `import _ "./discovery/ads"`, "how it looks for it"},
	{"discovery/xds/x.go", `import _ "./discovery/ads"`, "a function of a Mesh and a Node"},
	{"discovery/ads/x.go", `import _ "./discovery"`, "the arrows have one direction"},
	{"agent/health/x.go", `import _ "./agent/envoy"`, "health is judged from observations"},
	{"agent/records/x.go", `import _ "./agent/envoy"`, "a record is read and kept without the Envoy that sent it"},
	{"agent/why/x.go", `import _ "./agent/envoy"`, "failures are explained from what an Envoy has said"},
	{"agent/cert/x.go", `import _ "./agent/proxy"`, "none of them may need it"},
	{"agent/proxy/x.go", `import _ "./internal/setting"`, "joined from a Config"},
	{"agent/frame/x.go", `import _ "./agent/envoy"`, "messages are read and written without what they mean"},
	{"agent/handoff/x.go", `import _ "./agent/envoy"`, "images hand over descriptors and a text"},
	{"agent/envoy/hotrestart/x.go", `import _ "./agent/envoy"`, "the protocol of hot restart is spoken"},
	{"agent/procnet/x.go", `import _ "./agent"`, "the kernel is read without what its answer means"},
	{"agent/lastgood/x.go", `import _ "./agent/relay"`, "what is remembered depends on messages"},
	{"agent/relay/x.go", `import _ "./agent/envoy"`, "a relay is joined from a Config"},
	{"agent/identity/x.go", `import _ "./bootstrap"`, "needs neither a host nor a pod"},
	{"agent/identity/x.go", `import _ "os"`, "no goroutine and no I/O"},
	{"agent/metrics/x.go", `import _ "./agent/status"`, "whatever they count"},
	{"agent/probe/x.go", `import _ "./agent/status"`, "whichever program answers there"},
	{"agent/status/x.go", `import _ "./agent/envoy"`, "only the joining room sees the child processes"},
	{"internal/version/x.go", `import _ "./node"`, "small tools stand alone"},
	{"internal/clidoc/x.go", `import _ "./node"`, "of whichever program"},
	{"internal/subcommand/x.go", `import _ "./node"`, "what both programs have alike"},
	{"discovery/printer/x.go", `import _ "./discovery/kube"`, "printed as they are written"},
	{"discovery/tracing/x.go", `import _ "./discovery/ads"`, "which build sends them"},
	{"internal/setting/x.go", `import _ "./node"`, "does not know any of the programs"},
	{"discovery/inject/x.go", `import _ "./discovery/model"`, "made from a pod and text"},
	{"discovery/explain/x.go", `import _ "./discovery/ads"`, "files and streams are for others"},
	{"discovery/validation/x.go", `import _ "./discovery/config/file"`, "and no file itself"},
	{"discovery/inject/admission/x.go", `import _ "./discovery/model"`, "joins what is asked"},
	{"discovery/heap/x.go", `import _ "./discovery/model"`, "seen from the heap alone"},
	{"discovery/page/x.go", `import _ "./discovery/status"`, "asks no other part"},
	{"discovery/proxystatus/x.go", `import _ "./discovery/debugclient"`, "it asks nobody"},
	{"discovery/debugclient/x.go", `import _ "./discovery/status"`, "ask over HTTP alone"},
	{"discovery/webhook/x.go", `import _ "./discovery/model"`, "a way to be asked"},
	{"discovery/ca/x.go", `import _ "./discovery/model"`, "made of bytes and a time"},
	{"discovery/ca/store/x.go", `import _ "./discovery/model"`, "have no callers"},
	{"discovery/ca/kubernetes/x.go", `import _ "./discovery/ca/store"`, "a cluster answers about tokens"},
	{"discovery/ca/issuer/x.go", `import _ "./discovery/ca/store"`, "tokens are judged by files"},
	{"discovery/ca/kubernetes/x.go", `import _ "k8s.io/api/authentication/v1"`, "a protobuf codec for each type"},
	{"discovery/ca/server/x.go", `import _ "github.com/golang-jwt/jwt/v5"`, "tokens are read at one door"},
	{"discovery/ca/server/x.go", `import _ "./discovery/ca/store"`, "judged by what they show"},
	{"discovery/kube/x.go", `import _ "./discovery/model"`, "knows neither"},
	{"discovery/kube/networking/x.go", `import _ "./discovery/ingress"`, "these types are the API's"},
	{"discovery/ingress/x.go", `import _ "k8s.io/api/networking/v1"`, "these bring a protobuf codec"},
	{"discovery/kube/catalog/x.go", `import _ "./discovery/kube"`, "where they come from"},
	{"discovery/kube/catalog/x.go", `import _ "k8s.io/client-go/rest"`, "does not depend on a client"},
	{"discovery/ingress/x.go", `import _ "./discovery/kube"`, "wherever these come from"},
	{"discovery/ingress/source/x.go", `import _ "./discovery/kube"`, "joins what stores pass on"},
	{"discovery/ingress/x.go", `import _ "k8s.io/client-go/rest"`, "does not depend on a client"},
	{"discovery/authz/x.go", `import _ "./discovery/xds"`, "does not depend on the listener"},
	{"discovery/config/x.go", `import _ "./watch"`, "not the stores"},
	{"discovery/registry/eureka/x.go", `import _ "./discovery/ads"`, "how it looks for it"},
	{"cmd/agent/x.go", `import _ "./watch"`, "joins the agent's half"},
	{"cmd/discovery/x.go", `import _ "./templates"`, "joined in discovery/plane"},
	{"cmd/discovery/remote/x.go", `import _ "./discovery/model"`, "asked over HTTP"},
	{"cmd/discovery/x.go", `import _ "./discovery/notes"`, "fills a plane.Config"},
	{"discovery/webhook/x.go", `import _ "./discovery/plane"`, "discovery/plane joins the other rooms"},
	{"discovery/plane/x.go", `import _ "./internal/setting"`, "a control plane is joined from a Config"},
	{"discovery/plane/ready.go", `import _ "context"`, "no goroutine and no I/O"},
	{"discovery/ads/x.go", `import _ "./internal/golden"`, "what helps tests"},
	{"discovery/ads/x.go", `import _ "testing"`, "what helps tests"},
	{"agent/flight/x.go", `func init() {}`, "importing a package"},
	{"cmd/agent/x.go", "func init() {}\nfunc init() {}", "the agent's one init"},
	{"agent/x.go", `var n int; func f() { n++ }`, "a package variable that changes"},
	{"agent/x.go", `var m = map[string]int{}; func f() { m["a"] = 1 }`, "a package variable that changes"},
	{"agent/x.go", `var m = map[string]int{}; func f() { delete(m, "a") }`, "a package variable that changes"},
	{"agent/x.go", `var s struct{ n int }; func f() { (s).n += 1 }`, "a package variable that changes"},
	{"agent/x.go", `import "flag"; var b bool; func f() { flag.BoolVar(&b, "b", false, "") }`, "a package variable that changes"},
	{"agent/x.go", `import "sync"; var mu sync.Mutex`, "a package variable that changes"},
	{"agent/x.go", `import "net/http"; func f() { http.DefaultClient.Timeout = 1 }`, "a package variable that changes"},
	{"agent/x_test.go", `import "testing"; func TestX(t *testing.T) { t.Skip() }`, "a test that is skipped"},
	{"agent/x_test.go", `import "time"; func f() { time.Sleep(1) }`, "a test waits on a condition"},
}

func TestEveryRuleCanFail(t *testing.T) {
	unbroken := slices.Clone(rules)
	for _, b := range broken {
		files := tree(t, map[string]string{b.path: b.source})
		var faults []string
		for _, r := range rules {
			found := judge([]rule{r}, files)
			if faults = append(faults, found...); len(found) > 0 {
				unbroken = slices.DeleteFunc(unbroken, func(u rule) bool { return u == r })
			}
		}
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, b.fault) }) {
			t.Errorf("%s: %s\nbreaks %q; found: %q", b.path, b.source, b.fault, faults)
		}
	}
	for _, r := range unbroken {
		t.Errorf("no file breaks the rule for %s: %s", r.who, r.why)
	}
}

func TestWhatTheRulesAllow(t *testing.T) {
	files := tree(t, map[string]string{
		"cmd/agent/x.go": `import ("os"; "runtime"; _ "./agent/proxy"; _ "./bootstrap")
			func init() { runtime.LockOSThread() }
			var home = os.Getenv("HOME")`,
		"cmd/discovery/x.go":                 `import (_ "./discovery/registry/consul"; _ "./discovery/config/file")`,
		"discovery/debounce.go":              `import "log/slog"; func f() slog.Level { return slog.LevelError }`,
		"agent/agent.go":                     `import "time"; func run() { go run(); time.Now() }`,
		"agent/core.go":                      `import "time"; type state struct{ since time.Time }; func (s *state) f(now time.Time) { s.since = now }`,
		"agent/proxy/x.go":                   `import (_ "./agent/envoy"; _ "./agent/identity"; _ "./bootstrap"; _ "./watch")`,
		"agent/envoy/x.go":                   `import (_ "os/exec"; _ "./agent"; _ "./bootstrap")`,
		"discovery/ads/x.go":                 `import (_ "./discovery/xds"; "google.golang.org/grpc"); func f() { grpc.NewServer() }`,
		"discovery/config/file/x.go":         `import (_ "./discovery/config"; _ "./discovery/model"; _ "./watch"; _ "istio.io/api/networking/v1alpha3")`,
		"discovery/config/kubernetes/x.go":   `import (_ "./discovery/kube"; _ "k8s.io/api/core/v1")`,
		"discovery/model/x.go":               `import "errors"; var ErrGone = errors.New("gone"); func f() { n := 1; n++ }`,
		"e2e/registries/x.go":                `import _ "github.com/hashicorp/consul/api"`,
		"discovery/sourcetest/sourcetest.go": `import _ "testing"`,
		"discovery/server_test.go":           `import (_ "./discovery/sourcetest"; _ "./discovery/ads")`,
		"e2e/bench/x.go":                     `import _ "os/exec"`,
	})
	for _, fault := range judge(rules, files) {
		t.Error(fault)
	}
}

func TestPackageRulesCanFail(t *testing.T) {
	for _, tt := range []struct{ path, comment, want string }{
		{"agent/util/x.go", "", `"util" says nothing`},
		{"agent/x.go", "", "has no package comment"},
		{"agent/x.go", "// Package x runs. It leaves the rest to others.", "has a package comment in agent/x.go"},
		{"agent/doc.go", "// Package x runs.", "does not say what the package leaves to others"},
		{"agent/doc.go", "// Package x runs. It leaves the rest to others.", ""},
	} {
		parsed, err := scan(fstest.MapFS{tt.path: {Data: []byte(tt.comment + "\npackage x\n")}, "agent/x_test.go": {Data: []byte("package x\n")}})
		if err != nil {
			t.Fatal(err)
		}
		faults := strings.Join(judgePackages(parsed), "\n")
		if !strings.Contains(faults, tt.want) || tt.want == "" && faults != "" {
			t.Errorf("%s %q: got %q, want %q", tt.path, tt.comment, faults, tt.want)
		}
	}
}

func TestARuleForNothingIsFound(t *testing.T) {
	files := tree(t, map[string]string{"agent/core.go": "", "node/x.go": ""})
	faults := idle([]rule{{who: "agent/core.go node agent/*", except: "agent/gone.go"}}, files)
	if len(faults) != 1 || !strings.Contains(faults[0], "agent/gone.go") {
		t.Errorf("got %q, want agent/gone.go alone", faults)
	}
}

func TestLinkRulesCanFail(t *testing.T) {
	for _, tt := range []struct {
		binary, links string
		faults        int
	}{
		{"agent", "google.golang.org/protobuf/proto", 1},
		{"agent", "google.golang.org/grpc", 1},
		{"agent", "istio.io/api/networking/v1alpha3", 1},
		{"agent", "k8s.io/api/core/v1", 1},
		{"agent", "github.com/envoyproxy/go-control-plane/envoy/config/core/v3", 1},
		{"agent", "go.opentelemetry.io/otel/trace", 1},
		{"agent", "golang.org/x/sys/unix", 0},
		{"discovery", "google.golang.org/grpc", 0},
		{"discovery", "honnef.co/go/tools/staticcheck", 1},
		{"discovery", "mvdan.cc/gofumpt/format", 1},
		{"discovery", "testing", 1},
	} {
		if got := judgeLinks(tt.binary, []string{tt.links}); len(got) != tt.faults {
			t.Errorf("%s links %s: found %q, want %d", tt.binary, tt.links, got, tt.faults)
		}
	}
}

// tree scans files given by path and source, without their package clauses.
func tree(t *testing.T, sources map[string]string) []file {
	t.Helper()
	files := fstest.MapFS{}
	for path, source := range sources {
		source = strings.ReplaceAll(source, `"./`, `"`+module+`/`)
		files[path] = &fstest.MapFile{Data: []byte("package x\n" + source)}
	}
	scanned, err := scan(files)
	if err != nil {
		t.Fatal(err)
	}
	return scanned
}
