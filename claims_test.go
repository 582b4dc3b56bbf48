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

// claims are the rows of what the README says is served, and the tests that show them.
var claims = map[string]string{
	"Envoys": "TestInterceptedSidecarsTakeEverything TestARequestPassesEverySidecar TestIngressGateway TestRoles" +
		" " + "TestConnectAndChange TestProxylessGRPC TestOverMutualTLS TestBootstrapVariant" +
		" " + "TestTwoPods TestRedirect TestImagesAreReproducible TestUnits",
	"configuration": "TestRowsAtEnvoy TestAPolicyOnItsWholeWay TestMeshConfig TestNetworks TestSupportKnowsEveryField TestMistakes TestScopes TestEgress" +
		" " + "TestServeConfigSources TestAnEmptyFirstAnswerDoesNotWipe TestObjects TestObjectsAreForFew" +
		" " + "TestBookinfo TestServeManifests",
	"registries": "TestServeRegistries TestServeIsNotReadyWithoutSettings TestUnionOfRegistries TestContract TestServerGoesOnWithoutALateSource" +
		" " + "TestContract TestGroupOf TestRoundsReadOnce TestBadAnswers" +
		" " + "TestContract TestGroupsOf TestARestartedServerDoesNotWipe TestHashCode TestFailover" +
		" " + "TestContract TestAges TestPruningAndWhatIsNeverPruned TestNothingAgesWhileTheBrokerIsAway" +
		" " + "TestRegistryContract TestKubernetesMesh TestSlicesAreOneService TestHealth TestServiceOf TestStatus TestLeader" +
		" " + "TestClusters TestRemote TestSeveralClusters TestServerWaitsForSourcesThatASourceAdds",
	"Kubernetes' own": "TestPaths TestHosts TestTLS TestHostileTenant TestClass TestIngressOfACluster TestIngressAddresses" +
		" " + "TestWebhookCertificate TestInjectionWebhook TestAPIServerTakesWhatIsInjected TestInjectedSidecarRuns TestKinds TestTemplateValuesStayValues",
	"certificates": "TestFourCommandsOnAFreshMachine TestTheDemoUnderStrict TestCertificatesFromSPIRE TestSPIRE TestCertificatesFromConsul TestLeavesOfConsulThatEndSoon TestJoinTokensBringMutualTLS TestRenewalsUnderLoad TestAnotherTokenMends TestServeSignsCertificates" +
		" " + "TestAuthoritiesThatArePluggedIn TestIstiosCertificateService TestACMEIssuesAndRenews TestACMEOfReplicas",
	"mistakes": "TestMistakes TestNoMistakes TestServeTellsNotes TestEnvoyAgrees" +
		" " + "TestScripts TestApplyReplacesWhatIsThere TestApplyOverwritesNothingElse TestApply TestValidatingWebhook",
	"an agent": "TestAKilledEnvoyComesBack TestHangFrozen TestHandoverHot TestHandoverSideBySide TestRotation " + "TestDrain TestPIDOneReapsOrphans TestMergedMetrics TestApplicationProbes TestQuitQuitQuit TestStatusTellsThePast" +
		" " + "TestWaitGatesAProgram TestAJobEndsItsProxy TestStatusAndRequest" +
		" " + "TestBootstrapGateway TestBootstrapMutualTLS TestBootstrapOpenTelemetry",
}

// absent are what the README says is not there, and a path that comes with it.
var absent = map[string]string{
	"Kubernetes": "discovery/registry/kubernetes", "Consul": "discovery/registry/consul", "Eureka": "discovery/registry/eureka",
	"Cloud Foundry": "discovery/registry/cloudfoundry", "other config stores": "discovery/config/kubernetes", "injection": "discovery/inject",
	"Ingress objects": "discovery/ingress", "several clusters": "discovery/registry/kubernetes/clusters.go",
	"status written to objects": "discovery/kube/status.go", "keys of a `jwksUri`": "discovery/keys", "certificates of wildcards by ACME": "discovery/acme/dns",
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
	items := regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]`).FindAllStringSubmatch(served, -1)
	for start, shown := range claims {
		if !slices.ContainsFunc(items, func(m []string) bool { return m[1] == start }) {
			t.Errorf("the README has no row %q, which is shown by %s", start, shown)
		}
		for name := range strings.FieldsSeq(shown) {
			if !tests[name] {
				t.Errorf("%q is to be shown by %s, which is no test", start, name)
			}
		}
	}
	for _, m := range items {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(claims)), func(start string) bool { return m[1] == start }) {
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

// functions are the tests, fuzzers and benchmarks of all packages, behind any build tag.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-hoE", `^func (Test|Fuzz|Benchmark)[A-Za-z0-9]+`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		found[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	return found
}
