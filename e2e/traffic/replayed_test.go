package traffic

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// unreplayed are the tests whose scenarios are not compared with explain, and why.
var unreplayed = map[string]string{
	"TestACertificateInADirectoryThatIsOpenToOthers": "is about an agent's files; it sends no request",
	"TestACredentialThatNobodyServes":                "explain does not know whether a secret is there, so not that a connection fails",
	"TestARequestPassesEverySidecar":                 "agents keep Envoy's log for ten seconds; TestExplainOfARunningDiscovery has its mesh, TestTrafficShifting its weights",
	"TestAServiceAtAPortOfTheBootstrap":              "asks the ports of agents, and sends no request through Envoy",
	"TestAStartWithBrokenFiles":                      "is about what discovery reads when it starts; its mesh is one service, as in TestEgress",
	"TestATokenMendsAnExpiredCertificate":            "as TestRenewalsUnderLoad",
	"TestAWeightMovesTraffic":                        "as TestARequestPassesEverySidecar",
	"TestAgentsComeAgainWhenTheyAreTold":             "is about agents and an authority; it sends no request",
	"TestAnAuthorityThatIsAwayIsAskedOften":          "is about agents and an authority; it sends no request",
	"TestCipherSuitesOfTheMesh":                      "is about handshakes; TestExplainOfServersIsTrue compares requests over TLS",
	"TestHTTP10":                                     "explain is about HTTP/1.1",
	"TestStrictOutlivesItsDirectory":                 "its clients have no proxy; TestExplainOfServersIsTrue compares each mode",
	"TestAnEndpointComesAndGoes":                     "as TestARequestPassesEverySidecar",
	"TestAnUpgradeKeepsTheCertificate":               "is about an agent's certificate; it sends no request",
	"TestAnotherTokenMends":                          "is about an agent's certificate; it sends no request",
	"TestCertificateFilesOfAGateway":                 "an agent keeps Envoy's log for ten seconds; TestGatewayCredentials has the same Gateway without one",
	"TestCertificatesFromSPIRE":                      "is about where a certificate comes from",
	"TestFourCommandsOnAFreshMachine":                "follows a page; TestExplainOfARunningDiscovery has such a mesh",
	"TestIstioCountsUnderMutualTLS":                  "as TestCertificateFilesOfAGateway; TestExplainOfServersIsTrue has mutual TLS",
	"TestJoinTokensBringMutualTLS":                   "as TestIstioCountsUnderMutualTLS",
	"TestPeerAuthentication":                         "its clients have no proxy; TestExplainOfServersIsTrue compares each mode",
	"TestPoliciesOverMutualTLS":                      "its clients have no proxy; TestExplainOfServersIsTrue compares policies",
	"TestRenewalsUnderLoad":                          "as TestIstioCountsUnderMutualTLS",
	"TestRequestsOfAMeshAreRecorded":                 "as TestARequestPassesEverySidecar",
	"TestTheDemo":                                    "as TestARequestPassesEverySidecar",
	"TestTheDemoUnderStrict":                         "as TestARequestPassesEverySidecar",
	"TestTheDiskOfTheStateIsFull":                    "as TestAStartWithBrokenFiles",
	"TestTracing":                                    "a trace changes no road; its mesh is one service, as in TestEgress",
	"TestUndetectedRequestsPassNoPolicy":             "its requests are malformed on purpose; explain is about well-formed ones",
	"TestValidateLiveOfConnectedSidecars":            "as TestARequestPassesEverySidecar",
}

// Each test with a mesh compares requests of it with explain, or stands above with a reason; they are five thousand together.
func TestEveryScenarioIsReplayed(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{} // by function, all that it calls
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !strings.HasPrefix(name, "long_") {
				calls[f.Name.Name] = called(f)
			}
		}
	}
	requests, left := 0, maps.Clone(unreplayed)
	for name := range calls {
		if !strings.HasPrefix(name, "Test") || name == "TestMain" || name == t.Name() {
			continue
		}
		compared, asked := replays(calls, name)
		requests += replayed * compared
		_, listed := left[name]
		delete(left, name)
		switch {
		case compared+asked == 0 && !listed:
			t.Errorf("%s: its scenario is not compared with explain: call replay, or give a reason in unreplayed", name)
		case compared+asked > 0 && listed:
			t.Errorf("%s: its scenario is compared, so it is no exception", name)
		}
	}
	for name := range left {
		t.Errorf("%s: no test has this name", name)
	}
	if requests < 5000 {
		t.Errorf("%d requests are replayed, want 5000 and more", requests)
	}
	t.Logf("%d requests at least", requests)
}

// called returns the names of the functions and methods that a function calls.
func called(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			names = append(names, fun.Name)
		case *ast.SelectorExpr:
			names = append(names, fun.Sel.Name)
		}
		return true
	})
	return names
}

// replays counts the calls of replay in a test and in functions of its own, and the other comparisons with explain.
func replays(calls map[string][]string, name string) (compared, asked int) {
	for _, to := range calls[name] {
		switch {
		case to == "replay":
			compared++
		case to == "compare" || to == "Answer" || strings.HasPrefix(name, "TestExplain"):
			asked++
		case strings.EqualFold(to, strings.TrimPrefix(name, "Test")):
			c, a := replays(calls, to)
			compared, asked = compared+c, asked+a
		}
	}
	return compared, asked
}
