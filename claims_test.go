package pilotlight_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// claims are what the README says is served: the beginning of each item, and the tests that show it.
var claims = map[string]string{
	"Envoy 1.40, as a sidecar":               "TestInterceptedSidecarsTakeEverything TestARequestPassesEverySidecar TestIngressGateway TestRoles",
	"`networking.istio.io` from a directory": "TestMeshConfig TestNetworks TestSupportKnowsEveryField TestMistakes TestScopes TestEgress",
	"Several sources at once":                "TestServeRegistries TestServeGoesOnWithoutSettings TestUnionOfRegistries TestContract TestServerGoesOnWithoutALateSource",
	"Consul's services":                      "TestContract TestGroupOf TestRoundsReadOnce TestBadAnswers",
	"Eureka's services":                      "TestContract TestGroupsOf TestARestartedServerDoesNotWipe TestHashCode TestFailover",
	"Cloud Foundry's routes":                 "TestContract TestAges TestPruningAndWhatIsNeverPruned TestNothingAgesWhileTheBrokerIsAway",
	"Objects from further directories":       "TestServeConfigSources TestAnEmptyFirstAnswerDoesNotWipe TestObjects TestObjectsAreForFew",
	"A Kubernetes cluster":                   "TestRegistryContract TestKubernetesMesh TestSlicesAreOneService TestHealth TestServiceOf TestStatus TestLeader",
	"Several Kubernetes clusters":            "TestClusters TestRemote TestSeveralClusters TestServerWaitsForSourcesThatASourceAdds",
	"Kubernetes' Ingress objects":            "TestPaths TestHosts TestTLS TestHostileTenant TestClass TestIngressOfACluster TestIngressAddresses",
	"Injection":                              "TestWebhookCertificate TestInjectionWebhook TestAPIServerTakesWhatIsInjected TestInjectedSidecarRuns TestKinds TestTemplateValuesStayValues",
	"Kubernetes' Service":                    "TestBookinfo TestServeManifests",
	"What is wrong with it":                  "TestMistakes TestNoMistakes TestServeTellsNotes TestEnvoyAgrees",
	"Objects are validated and written":      "TestScripts TestApplyReplacesWhatIsThere TestApplyOverwritesNothingElse TestApply TestValidatingWebhook",
	"ADS in both variants":                   "TestConnectAndChange TestProxylessGRPC TestOverMutualTLS TestBootstrapVariant",
	"A pod's redirection":                    "TestTwoPods TestRedirect TestImagesAreReproducible TestUnits",
	"An agent that replaces an Envoy": "TestAKilledEnvoyComesBack TestHangFrozen TestHandoverHot TestHandoverSideBySide TestRotation " +
		"TestDrain TestPIDOneReapsOrphans TestMergedMetrics TestApplicationProbes TestQuitQuitQuit TestStatusTellsThePast",
	"`agent wait` holds a program back": "TestWaitGatesAProgram TestAJobEndsItsProxy TestStatusAndRequest",
	"Bootstraps of the roles":           "TestBootstrapGateway TestBootstrapMutualTLS TestBootstrapOpenTelemetry",
}

// absent are what the README says is not there, and a path that comes with it.
var absent = map[string]string{
	"Kubernetes": "discovery/registry/kubernetes", "Consul": "discovery/registry/consul", "Eureka": "discovery/registry/eureka",
	"Cloud Foundry": "discovery/registry/cloudfoundry", "other config stores": "discovery/config/kubernetes", "injection": "discovery/inject",
	"Ingress objects": "discovery/ingress", "several clusters": "discovery/registry/kubernetes/clusters.go",
	"status written to objects": "discovery/kube/status.go", "access rules": "discovery/xds/rbac.go",
}

// Each claim of the README is shown by tests that exist, and parts that it calls absent are absent.
func TestREADMEIsTrue(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## What it serves today\n")
	section, _, _ = strings.Cut(section, "\n## ")
	served, missing, parted := strings.Cut(section, "\nNot there yet: ")
	missing, _, _ = strings.Cut(missing, ".")
	if !found || !parted {
		t.Fatal("the README has no section \"What it serves today\", or no \"Not there yet\"")
	}
	tests := functions(t)
	items := regexp.MustCompile(`(?m)^- (.*(?:\n  .*)*)`).FindAllStringSubmatch(served, -1)
	for start, shown := range claims {
		if !slices.ContainsFunc(items, func(m []string) bool { return strings.HasPrefix(m[1], start) }) {
			t.Errorf("the README has no item %q, which is shown by %s", start, shown)
		}
		for name := range strings.FieldsSeq(shown) {
			if !tests[name] {
				t.Errorf("%q is to be shown by %s, which is no test", start, name)
			}
		}
	}
	for _, m := range items {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(claims)), func(start string) bool { return strings.HasPrefix(m[1], start) }) {
			t.Errorf("nothing shows that there is: %s", m[1])
		}
	}
	missing = strings.Join(strings.Fields(missing), " ")
	for what, path := range absent {
		if _, err := os.Stat(path); (err == nil) == strings.Contains(missing, what) {
			t.Errorf("%s: the README says it is not there: %v; %s: %v", what, strings.Contains(missing, what), path, err)
		}
	}
	for what := range strings.SplitSeq(regexp.MustCompile(`[()]`).ReplaceAllString(strings.ReplaceAll(missing, "registries ", ""), ""), ", ") {
		if _, known := absent[what]; !known {
			t.Errorf("no path says whether there is: %s", what)
		}
	}
}

// functions are the tests of all packages, behind any build tag.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-hoE", `^func Test[A-Za-z0-9]+`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		found[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	return found
}
