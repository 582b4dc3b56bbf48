// The house's walls as a test: which package imports which, and what each room may do. Every rule says why it stands.
package pilotlight_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule binds the files of some packages. It speaks of facts of a file (see facts_test.go):
//
//	import P       a path of ours is "./discovery/model"
//	use P.Name     a name of an imported package
//	go, func init  a go statement; an init function, "another func init" for a package's next one
//	assign V       a package variable, of this package or of another, changed by code
//	skip           t.Skip and its like
type rule struct {
	who    string // packages and files that it binds, as patterns (see matches)
	except string // those of them that it does not bind
	only   string // the packages of ours that they may import, or
	never  string // the facts that they must not have, as patterns; one may hold spaces, so commas part them
	tests  bool   // binds test files instead of the others
	why    string
}

const (
	adapters = "discovery/registry/* discovery/config/* discovery/secret/*"
	pure     = pureRooms + " " + pureFiles
	programs = "cmd/... examples/... e2e/..."

	// What package comments call pure, and the decisions of rooms that also do I/O.
	pureRooms = `
		agent/health
		agent/identity
		agent/why
		bootstrap
		node
		templates
		discovery/authz
		discovery/model
		discovery/config
		discovery/xds
		discovery/ads/protocol
		discovery/kube/catalog
		discovery/kube/networking
		discovery/ingress
		discovery/acme
		discovery/inject
		discovery/validation
		discovery/proxystatus
		discovery/explain
		discovery/ca
		discovery/registry/manifest
		internal/binding
		internal/bounded
		internal/environ
		internal/template
		internal/connlimit
		internal/spelling
		internal/spiffe
	`
	pureFiles = `
		agent/core.go
		agent/carry.go
		agent/epoch.go
		agent/handover.go
		agent/stop.go
		agent/status.go
		agent/cert/check.go
		agent/envoy/argv.go
		agent/envoy/remains.go
		agent/flight/record.go
		agent/lossy/lines.go
		cmd/agent/statustable.go
		agent/records/parse.go
		agent/sds/secret.go
		agent/sds/stream.go
		agent/frame/field.go
		agent/enroll/plan.go
		agent/relay/scan.go
		agent/lastgood/memory.go
		agent/lastgood/message.go
		agent/lastgood/progress.go
		agent/metrics/exposition.go
		agent/metrics/istio.go
		agent/metrics/writer.go
		discovery/state.go
		discovery/debounce.go
		discovery/secretstate.go
		discovery/heap/goal.go
		discovery/notes/difference.go
		discovery/ca/server/fault.go
		discovery/ca/server/rate.go
		discovery/ca/issuer/config.go
		discovery/ca/issuer/keys.go
		discovery/ca/issuer/judge.go
		discovery/ca/kubernetes/judge.go
		discovery/ads/content/resume.go
		discovery/ads/intake/message.go
		discovery/config/file/parse.go
		discovery/config/file/state.go
		discovery/config/kubernetes/verdict.go
		discovery/config/mcp/state.go
		discovery/inject/admission/state.go
		discovery/plane/faults.go
		discovery/plane/limits.go
		discovery/plane/ready.go
		discovery/plane/wanted.go
		discovery/registry/cloudfoundry/table.go
		discovery/registry/consul/record.go
		discovery/registry/consul/round.go
		discovery/registry/consul/view.go
		discovery/registry/eureka/read.go
		discovery/registry/eureka/record.go
		discovery/registry/eureka/registry.go
		discovery/secret/file/wanted.go
		discovery/webhook/certificate.go
		discovery/webhook/state.go
		discovery/keys/cache.go
		discovery/keep.go
		discovery/hold.go
		discovery/statedir/file.go
		discovery/statedir/group.go
	`
)

var rules = []rule{
	// The two halves.
	{
		who: "agent/... bootstrap cmd/agent", never: "import ./discovery/...",
		why: "the agent and discovery share node, watch and templates, nothing else: either must build without the other",
	},
	{
		who: "discovery/... cmd/discovery", never: "import ./agent/..., import ./bootstrap",
		why: "the agent and discovery share node, watch and templates, nothing else: either must build without the other",
	},

	// Adapters.
	{
		who: "...", except: "discovery/plane discovery/validation cmd/discovery e2e/adsbench", never: "import ./discovery/registry/*, import ./discovery/config/*, import ./discovery/secret/*",
		why: "only the plane joins adapters, and the bench of their cost: no other may know where services, configuration and secrets come from, least of all another adapter",
	},
	{
		who: "discovery/validation", only: "discovery/config discovery/ingress discovery/model discovery/registry/manifest",
		why: "files are judged by the rules by which they are served: it reads Kubernetes' objects as the store of files does, and no file itself",
	},
	{
		who: "cmd/discovery", never: "import ./discovery/secret/..., import ./discovery/ads/*, import ./discovery/notes, import ./discovery/status, import ./discovery/webhook, " +
			"use ./discovery.Server, use ./discovery/ads.New, import ./discovery/registry/kubernetes, import ./discovery/registry/mock, import ./discovery/config/mcp",
		why: "cmd fills a plane.Config with settings, and reads stores for its other commands: what runs is joined in discovery/plane",
	},
	{
		who: "discovery/*", except: "discovery/plane", never: "import ./discovery/plane",
		why: "discovery/plane joins the other rooms: none of them may need it",
	},

	// One door each.
	{
		who: "...", except: "watch", never: "import github.com/fsnotify/...",
		why: "watch is the one door to file events: it knows their traps",
	},
	{
		who: "...", except: "agent/envoy agent/application agent/handoff examples/... e2e/...",
		never: "import os/exec, use os.StartProcess, use syscall.ForkExec",
		why: "child processes have these doors, for a proxy and an application differ in thread, group and death signal: " +
			"agent/envoy's ends with the agent, agent/application's outlives the process that started it; agent/handoff asks another image of the agent",
	},
	{
		who: "...", except: "discovery/ads e2e/...", never: "use google.golang.org/grpc.NewServer",
		why: "ads is the one door to the gRPC server: its codec and limits belong together",
	},
	{
		who: "...", except: "discovery/heap agent/footprint e2e/...", never: "use runtime/debug.SetGCPercent, use runtime/debug.SetMemoryLimit",
		why: "a process has one collector: one package paces it",
	},
	{
		who: "...", except: "cmd/... internal/subcommand internal/clidoc", never: "import github.com/spf13/cobra",
		why: "flags belong to cmd, with the commands that both programs have, and their pages to its tests: everything else takes a Config",
	},
	{
		who: "...", except: programs,
		never: "use os.Getenv, use os.LookupEnv, use os.Environ, use os.ExpandEnv, use syscall.Getenv",
		why:   "the environment belongs to cmd: a switch that is read deep inside is in nobody's Config",
	},
	{
		who: "...", except: "discovery/tracing", never: "import go.opentelemetry.io/otel/sdk/..., import go.opentelemetry.io/otel/exporters/...",
		why: "where traces go is for cmd to say, and for one package to know: everything else begins spans",
	},

	// The functional core.
	{
		who: pure, // a syscall.Signal and a slog.Level are values, so their packages are not on the list
		never: "go, import context, import os, import os/*, import net, import net/http, import io/fs, import log, " +
			"use log/slog.Default, use log/slog.Debug*, use log/slog.Info*, use log/slog.Warn*, use log/slog.Error*, use log/slog.Log*, use log/slog.New*, " +
			"import sync/..., import golang.org/x/sys/..., use syscall.Kill, use syscall.Exec",
		why: "decisions are functions of values: no goroutine and no I/O, so that a table tests them",
	},
	{
		who: pure,
		never: "use time.Now, use time.Since, use time.Until, use time.Sleep, use time.After, use time.AfterFunc, " +
			"use time.Tick, use time.NewTimer, use time.NewTicker",
		why: "time is an argument in the core, so that a test owns it",
	},

	// Foreign types stop at their door.
	{
		who: "...", except: "discovery/kube/... discovery/registry/kubernetes/... discovery/registry/manifest discovery/config/kubernetes/... discovery/secret/kubernetes/... " +
			"discovery/ingress discovery/webhook discovery/inject/... discovery/acme/kubernetes discovery/ca/kubernetes discovery/statedir/kubernetes e2e/crd",
		never: "import k8s.io/..., import sigs.k8s.io/...", why: "Kubernetes' types stop at their adapters, and at the reference of tests",
	},
	{
		who: "...", except: "e2e/...",
		never: "import k8s.io/client-go/kubernetes/..., import k8s.io/client-go/informers/..., import k8s.io/client-go/listers/..., " +
			"import k8s.io/client-go/dynamic/..., import k8s.io/client-go/tools/leaderelection/...",
		why: "the clients of every API of Kubernetes are 350 packages and 15 MB: discovery/kube reads and writes by rest",
	},
	{
		who: "...", except: "e2e/...", never: "import k8s.io/api/admission/..., import k8s.io/api/apps/..., import k8s.io/api/authentication/..., " +
			"import k8s.io/api/coordination/..., import k8s.io/api/events/..., import k8s.io/api/networking/...",
		why: "these bring a protobuf codec for each type, a megabyte: what is read of them is JSON, in structs of ours that tests compare with theirs",
	},
	{
		who: "...", except: "discovery/ca/issuer", never: "import github.com/golang-jwt/..., import github.com/go-jose/...",
		why: "tokens are read at one door: what may sign them is decided once",
	},
	{
		who: "...", except: "e2e/registries/...", never: "import github.com/hashicorp/consul/...",
		why: "the adapter asks Consul over HTTP: its library brings modules that are no longer maintained; tests start the server itself",
	},
	{
		who: "...", except: "discovery/registry/cloudfoundry/... e2e/registries/...", never: "import github.com/nats-io/...",
		why: "NATS stops at the adapter of Cloud Foundry",
	},
	{
		who: "...", except: "discovery/authz discovery/authz/authztest discovery/xds discovery/explain discovery/ads discovery/ads/content discovery/ads/protocol discovery/ads/adstest discovery/config/mcp e2e/adsbench",
		never: "import github.com/envoyproxy/..., import github.com/cncf/xds/...",
		why: "Envoy's types live in xds and ads, in explain, which reads them as Envoy does, and those of ADS in the store that asks another control plane: " +
			"the model must not be shaped by one consumer",
	},
	{
		who: "...", except: "discovery/acme discovery/authz discovery/authz/authztest discovery/model discovery/xds discovery/config/... discovery/ingress discovery/ads e2e/adsbench",
		never: "import istio.io/...",
		why:   "Istio's types are the configuration's own words: leaf values for model and xds, and no other's business",
	},
	{
		who: "discovery/ads", never: "import istio.io/api/networking/..., import istio.io/api/mesh/..., import istio.io/client-go/...",
		why: "Istio's types are for model and xds: ads has the messages of Istio's certificate service alone",
	},

	// Which package imports which.
	{
		who: "agent node templates watch", only: "nothing",
		why: "the bottom of the house stands on nothing of ours",
	},
	{who: "internal/local", only: "nothing", why: "both halves ask what is local, so it stands on neither"},
	{who: "internal/binding internal/bounded internal/atomicfile internal/environ internal/template internal/golden internal/logger internal/safefile internal/retry internal/connlimit internal/spelling internal/spiffe internal/version", only: "nothing", why: "small tools stand alone, so that any package may use them"},
	{who: "internal/clidoc", only: "internal/golden internal/setting", why: "pages are made from commands, of whichever program"},
	{who: "internal/subcommand", only: "internal/setting", why: "what both programs have alike knows neither"},
	{who: "discovery/printer", only: "discovery/config", why: "objects are printed as they are written, wherever they lie"},
	{who: "discovery/tracing", only: "internal/version", why: "traces tell which build sends them, and no more of discovery"},
	{who: "internal/setting", only: "internal/spelling", why: "a table of settings does not know any of the programs that have one"},
	{who: "agent/*", except: "agent/proxy", only: "agent/... bootstrap node watch internal/binding internal/atomicfile internal/local internal/safefile internal/connlimit", why: "the agent's rooms know the agent, not the commands"},
	{
		who: "agent/*", except: "agent/proxy", never: "import ./agent/proxy",
		why: "agent/proxy joins the other rooms: none of them may need it",
	},
	{who: "agent/proxy", only: "agent/... bootstrap node watch internal/environ internal/safefile", why: "a proxy is joined from a Config: flags and their table stay in cmd"},
	{who: "agent/handoff", only: "nothing", why: "images hand over descriptors and a text: what it says is the joining room's business"},
	{who: "agent/frame", only: "nothing", why: "messages are read and written without what they mean"},
	{who: "agent/lastgood", only: "agent/frame internal/atomicfile", why: "what is remembered depends on messages, not on who sends them"},
	{who: "agent/envoy/hotrestart", only: "agent/frame", why: "the protocol of hot restart is spoken with sockets and shared memory: which process is behind them is agent/envoy's to know"},
	{who: "agent/procnet", only: "nothing", why: "the kernel is read without what its answer means: processes are judged by those that run them"},
	{who: "agent/relay", only: "agent/frame agent/lastgood agent/cert internal/binding", why: "a relay is joined from a Config: whose Envoys it serves is the joining room's business"},
	{who: "agent/metrics", only: "agent/probe internal/connlimit", why: "texts of metrics are joined, whatever they count: the agent's own are written by its caller"},
	{who: "agent/probe", only: "internal/local", why: "a probe goes to an address of this host, whichever program answers there"},
	{who: "agent/health", only: "nothing", why: "health is judged from observations: it must not reach the Envoy that it judges"},
	{who: "agent/records", only: "agent/flight agent/frame agent/why", why: "a record is read and kept without the Envoy that sent it: agent/proxy decides who may connect"},
	{who: "agent/why", only: "nothing", why: "failures are explained from what an Envoy has said: it must not reach the Envoy that it explains"},
	{who: "agent/identity", only: "node", why: "an identity is made of texts and addresses: a test of it needs neither a host nor a pod"},
	{
		who: "agent/status agent/flight agent/client agent/cert agent/cgroup", never: "import ./agent/envoy, import ./agent/application",
		why: "only the joining room sees the child processes: others get values, so that a test needs no process",
	},
	{who: "discovery/model", only: "internal/spelling", why: "the model stands on nothing of ours; its notes say which name was meant"},
	{who: "bootstrap", only: "node templates internal/template", why: "a bootstrap is made from parameters and text"},
	{
		who: "discovery", only: "discovery/model discovery/secret internal/retry",
		why: "the server loop moves a Mesh, and secrets beside it: what becomes of them is behind Pusher and Vault",
	},
	{who: "discovery/secret", only: "nothing", why: "secrets go past the mesh: what knows one must not need the other"},
	{who: "discovery/xds", only: "discovery/authz discovery/model node", why: "translation is a function of a Mesh and a Node"},
	{who: "discovery/explain", only: "discovery/xds discovery/model node", why: "a request is judged by what a proxy is sent, which xds makes of a mesh: files and streams are for others"},
	{who: "discovery/authz", only: "discovery/model", why: "what a policy means does not depend on the listener that it is put into"},
	{
		who: "discovery/ads", only: "discovery/ads/content discovery/ads/intake discovery/ads/protocol discovery/xds discovery/model discovery/secret node internal/binding internal/local internal/safefile internal/connlimit internal/spiffe",
		why: "ads → xds → model, node: the arrows have one direction",
	},
	{
		who: "discovery/ads/protocol", only: "discovery/ads/content discovery/model",
		why: "a response is decided from values: how it is carried, and which client gets it, is ads' business",
	},
	{
		who: "discovery/ads/content", only: "discovery/xds discovery/model discovery/secret",
		why: "what is sent is made of a mesh and secrets, whichever package sends it",
	},
	{
		who: "discovery/ads/content", never: "go, import google.golang.org/grpc/..., import time, import os, import net, import net/..., import log/...",
		why: "content is values and their caches: streams own the goroutines and the clock",
	},
	{who: "discovery/ads/adstest", only: "discovery/xds discovery/model", why: "the tests of every room of ads use it, so it knows none of them"},
	{who: "discovery/ads/intake", only: "nothing", why: "requests are counted by their lengths: what is in them is ads' to know"},
	{who: "discovery/notes", only: "discovery/model", why: "notes are of a mesh, wherever it goes"},
	{who: "discovery/status", only: "discovery/ads discovery/ads/protocol discovery/model discovery/proxystatus internal/local", why: "pages show what the streams and the mesh are"},
	{who: "discovery/page", only: "discovery/ads discovery/model discovery/proxystatus internal/connlimit", why: "the page shows facts that the plane hands over, and asks no other part; which browser makes room is for every port the same"},
	{who: "discovery/proxystatus", only: "discovery/ads discovery/ads/protocol discovery/model discovery/secret", why: "what is said of proxies is joined from what is known of them: it asks nobody"},
	{who: "discovery/debugclient", only: "discovery/explain internal/binding internal/safefile internal/spiffe", why: "what a running discovery answers is text, or the road of a request: commands beside serve ask over HTTP alone"},
	{who: "discovery/inject", only: "node internal/template internal/spelling", why: "a patch is made from a pod and text"},
	{who: "discovery/inject/admission", only: "discovery/inject discovery/kube", why: "it joins what is asked with what becomes of a Pod"},
	{who: "discovery/keys", only: "discovery/model", why: "keys are fetched from wherever policies say: what a policy means without them is the model's to know"},
	{who: "discovery/acme", only: "discovery/model", why: "which certificates are needed, and when, follows from a mesh and a record: files and requests are the client's"},
	{who: "discovery/acme/client", only: "discovery/acme discovery/keys discovery/model discovery/secret internal/bounded internal/atomicfile internal/safefile", why: "it asks issuers, and serves what they give: its caller says which gateways are connected"},
	{who: "discovery/acme/kubernetes", only: "discovery/acme discovery/kube", why: "a cluster keeps what replicas share: package acme decides which replica orders"},
	{who: "...", except: "discovery/acme/client", never: "import golang.org/x/crypto/acme/...", why: "one room speaks ACME"},
	{who: "discovery/statedir", only: "discovery/model internal/atomicfile", why: "groups are kept alike for every source: what is served of them is discovery's to decide"},
	{who: "discovery/statedir/kubernetes", only: "discovery/kube discovery/model discovery/statedir", why: "a Secret holds what a file could: which forms these are is discovery's to decide"},
	{who: "discovery/heap", only: "nothing", why: "how far the heap may grow is seen from the heap alone"},
	{who: "discovery/webhook", only: "discovery/ca discovery/kube", why: "a webhook is a way to be asked: what the answer is comes from its caller"},
	{who: "discovery/ca", only: "internal/binding internal/spiffe", why: "an authority is made of bytes and a time: callers and files are for others"},
	{who: "discovery/ca/store", only: "discovery/ca internal/atomicfile internal/safefile", why: "files of an authority have no callers"},
	{who: "discovery/ca/kubernetes", only: "discovery/ca discovery/ca/server discovery/kube", why: "a cluster answers about tokens and keeps what replicas share: what it means is the authority's to know"},
	{who: "discovery/ca/issuer", only: "discovery/ca discovery/ca/server internal/safefile", why: "tokens are judged by files: the plane watches these, and the door asks"},
	{who: "discovery/ca/server", only: "discovery/ca internal/connlimit", why: "callers are judged by what they show: tokens and files come behind interfaces"},
	{who: "discovery/kube", only: "discovery/kube/networking internal/retry", why: "the Kubernetes client serves its adapters and knows neither"},
	{who: "discovery/kube/catalog", only: "discovery/model", why: "the meaning of Kubernetes' objects does not depend on where they come from"},
	{
		who: "discovery/kube/catalog", never: "import k8s.io/client-go/...",
		why: "the meaning of Kubernetes' objects does not depend on a client: files hold them too",
	},
	{who: "discovery/kube/networking", only: "nothing", why: "these types are the API's: what they mean is for others"},
	{who: "discovery/ingress", only: "discovery/kube/networking discovery/model internal/spelling", why: "Gateways and VirtualServices are made of Ingresses, wherever these come from"},
	{who: "discovery/ingress/source", only: "discovery/ingress discovery/kube/networking discovery/model", why: "it joins what stores pass on, wherever they read it"},
	{who: "discovery/ingress", never: "import k8s.io/client-go/...", why: "the meaning of Kubernetes' objects does not depend on a client: files hold them too"},
	{who: "discovery/config", only: "discovery/model node internal/spelling", why: "decoding and validating need the model, not the stores"},
	{
		who: adapters, only: "discovery/model discovery/config discovery/secret discovery/ingress discovery/kube discovery/kube/catalog discovery/kube/networking watch internal/binding internal/bounded internal/safefile internal/spiffe",
		why: "an adapter tells the model what it finds; how it looks for it is its own business",
	},
	{
		who: "cmd/agent",
		only: "agent agent/application agent/cert agent/client agent/envoy agent/identity agent/lossy agent/proxy agent/status agent/handoff agent/why " +
			"bootstrap node internal/environ internal/logger internal/setting internal/subcommand internal/version",
		why: "cmd/agent joins the agent's half: flags become a Config, and what runs is joined in agent/proxy",
	},
	{
		who: "cmd/discovery/remote", only: "discovery/debugclient discovery/validation discovery/explain discovery/proxystatus internal/setting internal/subcommand",
		why: "a running discovery is asked over HTTP: its parts are not here",
	},
	{
		who: "cmd/discovery", only: "cmd/discovery/remote discovery/... internal/subcommand internal/environ internal/logger internal/safefile internal/setting internal/version",
		why: "flags become a Config, mistyped commands get an answer, and what runs is joined in discovery/plane",
	},
	{
		who: "discovery/plane", only: "discovery discovery/... watch internal/safefile internal/connlimit internal/version",
		why: "a control plane is joined from a Config: flags and their table stay in cmd",
	},
	{
		who: "...", except: "internal/golden internal/clidoc discovery/ads/adstest discovery/authz/authztest discovery/sourcetest e2e/lab",
		never: "import ./internal/golden, import ./internal/clidoc, import ./discovery/sourcetest, import ./discovery/ads/adstest, import ./discovery/authz/authztest, import ./e2e/crd, import testing/...",
		why:   "what helps tests belongs to tests",
	},

	// Hand.
	{who: "...", except: "cmd/agent", never: "func init", why: "importing a package must not do anything"},
	{
		who: "cmd/agent", never: "another func init",
		why: "the agent's one init locks the main thread; there is nothing else to do that early",
	},
	{who: "...", never: "assign *", why: "a package variable that changes is state that nobody owns"},
	{
		who: "...", tests: true, never: "skip",
		why: "a missing part is a failure with a clear message; a test that is skipped proves nothing",
	},
	{who: "...", tests: true, never: "use time.Sleep", why: "a test waits on a condition with a deadline"},
}

// words are names that say nothing about what is inside.
var words = []string{"util", "utils", "common", "helper", "helpers", "base", "types", "misc", "shared"}

func TestHouse(t *testing.T) {
	files, err := scan(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range judge(rules, files) {
		t.Error(fault)
	}
	for _, fault := range idle(rules, files) {
		t.Error(fault)
	}
	for _, fault := range judgePackages(files) {
		t.Error(fault)
	}
}

// judge returns a line for each fact that breaks a rule.
func judge(rules []rule, files []file) []string {
	var faults []string
	for _, r := range rules {
		for _, f := range files {
			if f.test != r.tests || !f.in(r.who) || f.in(r.except) {
				continue
			}
			for _, fact := range f.facts {
				if r.broken(fact) {
					faults = append(faults, fmt.Sprintf("%s: %s: %s", f.path, fact, r.why))
				}
			}
		}
	}
	return faults
}

// idle returns a line for each file and package named by a rule that is not there: after a move such a rule guards nothing.
func idle(rules []rule, files []file) (faults []string) {
	for _, r := range rules {
		for _, name := range strings.Fields(r.who + " " + r.except) {
			present := func(f file) bool { return f.in(name) || strings.HasSuffix(name, "*") }
			if !slices.ContainsFunc(files, present) {
				faults = append(faults, fmt.Sprintf("no file is %s, which a rule names: %s", name, r.why))
			}
		}
	}
	return faults
}

func (r rule) broken(fact string) bool {
	if r.never != "" {
		return matchesAny(strings.Split(r.never, ","), fact)
	}
	room, ours := strings.CutPrefix(fact, "import ./")
	return ours && !matchesAny(strings.Fields(r.only), room)
}

// judgePackages holds what is said of packages rather than of files.
func judgePackages(files []file) []string {
	documents := map[string]map[string]string{} // package comments by package and by path
	for _, f := range files {
		if f.test {
			continue
		}
		if documents[f.pkg()] == nil {
			documents[f.pkg()] = map[string]string{}
		}
		if f.doc != "" {
			documents[f.pkg()][f.path] = f.doc
		}
	}
	var faults []string
	for _, pkg := range slices.Sorted(maps.Keys(documents)) {
		if fault := judgeDoc(documents[pkg]); fault != "" {
			faults = append(faults, pkg+": "+fault)
		}
		for part := range strings.SplitSeq(pkg, "/") {
			if slices.Contains(words, part) {
				faults = append(faults, fmt.Sprintf("%s: %q says nothing about what is inside", pkg, part))
			}
		}
	}
	return faults
}

// limits finds the sentence of a package comment that says what the package does not do.
var limits = regexp.MustCompile(`\b(leaves|refuses|do(es)? not|knows no|only)\b`)

// judgeDoc returns what is wrong with the package comments of one package, given by the paths of their files.
func judgeDoc(comments map[string]string) string {
	for name, text := range comments {
		switch {
		case path.Base(name) != "doc.go":
			return "has a package comment in " + name + ": want it in doc.go, where readers look for it"
		case !limits.MatchString(text):
			return "its doc.go does not say what the package leaves to others"
		}
	}
	if len(comments) == 0 {
		return "has no package comment: say in doc.go what it is for, and what it leaves to others"
	}
	return ""
}

// linked are the packages that a binary must not contain, whichever way they come in.
var linked = []struct{ binary, never, why string }{
	{
		"agent", "google.golang.org/..., github.com/envoyproxy/..., github.com/cncf/..., " +
			"k8s.io/..., sigs.k8s.io/..., istio.io/..., go.opentelemetry.io/...",
		"an agent runs beside every workload: it stays below 14 MB",
	},
	{
		"*", "testing/..., honnef.co/..., mvdan.cc/..., golang.org/x/tools/..., github.com/google/go-cmp/..., " +
			"go.uber.org/goleak/..., github.com/rogpeppe/..., github.com/stretchr/...",
		"what helps to build or to test is not part of the product",
	},
}

func TestLinkSets(t *testing.T) {
	const format = `{{if eq .Name "main"}}{{.ImportPath}}{{range .Deps}} {{.}}{{end}}{{end}}`
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		binary, isProduct := strings.CutPrefix(packages[0], module+"/cmd/")
		if !isProduct {
			continue
		}
		for _, fault := range judgeLinks(binary, packages[1:]) {
			t.Error(fault)
		}
	}
}

func judgeLinks(binary string, packages []string) []string {
	var faults []string
	for _, l := range linked {
		if !matches(l.binary, binary) {
			continue
		}
		for _, p := range packages {
			if matchesAny(strings.Split(l.never, ","), p) {
				faults = append(faults, fmt.Sprintf("%s links %s: %s", binary, p, l.why))
			}
		}
	}
	return faults
}
