package envoytools_test

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dryRun prints what pod-init would load. It needs no privilege.
func dryRun(t *testing.T, words ...string) (stdout, stderr string, status int) {
	t.Helper()
	script, err := filepath.Abs("pod-init")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POD_INIT_BACKEND=nft"}
	for len(words) > 0 && strings.Contains(words[0], "=") && words[0][0] != '-' {
		cmd.Env, words = append(cmd.Env, words[0]), words[1:]
	}
	cmd.Args = append(cmd.Args, append(words, "-n")...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), complaint.String(), status
}

// A value that no rule could be made of is refused by name before anything is done: nothing of it reaches nft or a
// shell.
func TestPodInitRefuses(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"-p", "0"}, "-p 0: want a port"},
		{[]string{"-p", "65536"}, "-p 65536: want a port"},
		{[]string{"-p", "0x50"}, "-p 0x50: want a port"},
		{[]string{"-p", "99999999999999999999"}, "want a port"},
		{[]string{"-p", "15006"}, "-z 15006: is also -p"},
		{[]string{"-z", "http"}, "-z http: want a port"},
		{[]string{"ENVOY_PORT=; reboot"}, "-p ; reboot: want a port"},
		{[]string{"-u", "root"}, "-u root: root: want user ids"},
		{[]string{"-u", ",1"}, "-u ,1: has an empty item"},
		{[]string{"-u", "4294967295"}, "want user ids"},
		{[]string{"-g", "-1"}, "-g -1: -1: want group ids"},
		{[]string{"-m", "tproxy"}, "-m tproxy: want REDIRECT or TPROXY"},
		{[]string{"-b", "80,,81"}, "-b 80,,81: has an empty item"},
		{[]string{"-b", "80,*"}, "-b 80,*: *: want ports"},
		{[]string{"-b", "90-80"}, "-b 90-80: 90-80: want ports"},
		{[]string{"-d", "80 } accept"}, "-d 80 } accept: 80 } accept: want ports"},
		{[]string{"-d", "$(reboot)"}, "want ports"},
		{[]string{"-o", "*"}, "-o *: *: want ports"},
		{[]string{"-i", "10.0.0.0/33"}, "-i 10.0.0.0/33: 10.0.0.0/33: want addresses"},
		{[]string{"-i", "10.0.0/8"}, "want addresses"},
		{[]string{"-i", "10.0.0.256"}, "want addresses"},
		{[]string{"-i", "10.0.0.0/"}, "want addresses"},
		{[]string{"-i", "10.0.0.0.0"}, "want addresses"},
		{[]string{"-i", "010.0.0.0"}, "want addresses"},
		{[]string{"-i", "fd00::/129"}, "want addresses"},
		{[]string{"-i", "fd00::1::2"}, "want addresses"},
		{[]string{"-i", "fd00:1:2:3:4:5:6:7:8"}, "want addresses"},
		{[]string{"-i", "fd00:1:2"}, "want addresses"},
		{[]string{"-i", "fd00:12345::"}, "want addresses"},
		{[]string{"-i", ":1:2:3:4:5:6:7"}, "want addresses"},
		{[]string{"-i", "example.com"}, "want addresses"},
		{[]string{"-x", "*"}, "-x *: *: want addresses"},
		{[]string{"-k", `eth0"`}, `-k eth0": eth0": want names of interfaces`},
		{[]string{"-k", "an-interface-too-long"}, "want names of interfaces"},
		{[]string{"ISTIO_INBOUND_TPROXY_MARK=0"}, "ISTIO_INBOUND_TPROXY_MARK=0: want a number"},
		{[]string{"ISTIO_INBOUND_TPROXY_ROUTE_TABLE=254"}, "ISTIO_INBOUND_TPROXY_ROUTE_TABLE=254: want a number, 1 to 252"},
		{[]string{"--verify=localhost"}, "--verify=localhost: want an IP address"},
		{[]string{"--backend", "ebtables"}, "--backend ebtables: want nft or iptables"},
		{[]string{"-q", "80,http"}, "-q 80,http: http: want ports"},
		{[]string{"-c", "eth0;reboot"}, "-c eth0;reboot: eth0;reboot: want names of interfaces"},
		{[]string{"-t", "0"}, "ISTIO_INBOUND_TPROXY_MARK=0: want a number"},
		{[]string{"ISTIO_OUTBOUND_OWNER_GROUPS=no such group"}, "ISTIO_OUTBOUND_OWNER_GROUPS no such group: no such group: want names"},
		{[]string{"ISTIO_META_DNS_CAPTURE=perhaps"}, "ISTIO_META_DNS_CAPTURE=perhaps: want true or false"},
		{[]string{"--redirect-dns", "-p", "15053"}, "-p 15053: is also the port of DNS"},
		{[]string{"INVALID_DROP=perhaps"}, "INVALID_DROP=perhaps: want true or false"},
		{[]string{"--drop-invalid=maybe"}, "--drop-invalid=maybe: want true or false"},
		{[]string{"--envoy-port=http"}, "-p http: want a port"},
		{[]string{"--network-namespace=/run/netns/x"}, "run nsenter"},
		{[]string{"explain", "10.0.0.1"}, "want ADDRESS:PORT"},
		{[]string{"explain", "fd00::1:80"}, "want [ADDRESS]:PORT"},
		{[]string{"explain", "10.0.0.1:99999"}, "99999: want a port"},
		{[]string{"explain", "10.0.0.0/8:80"}, "want one address"},
		{[]string{"--quick"}, "--quick: no such flag"},
		{[]string{"-n", "clean"}, "clean: want apply, clean or explain, and it comes first"},
	} {
		stdout, stderr, status := dryRun(t, test.words...)
		if status != 64 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want 64 and %q", test.words, status, stdout, stderr, test.want)
		}
	}
}

// Addresses and lists in all their forms are taken.
func TestPodInitAccepts(t *testing.T) {
	for _, words := range [][]string{
		{"-i", "0.0.0.0/0,::/0,255.255.255.255/32,::1/128,fd00:1:2:3:4:5:6:7,1::,::ffff"},
		{"-b", "1,65535,1-65535"},
		{"-k", "eth0,k6t-net1,br_0.1"},
		{"-u", "0,4294967294", "-g", "0"},
		{"apply", "-p", "1", "-z", "2"},
		{"--verify=::1"},
		{"-b", "80,", "-x", "10.0.0.0/8,"},
		{"--istio-inbound-ports=80", "--proxy-uid", "1337", "--run-validation", "--dry-run=true"},
		{"-b", "", "-d", "", "-i", "", "-x", "", "-o", "", "-k", ""},
	} {
		if stdout, stderr, status := dryRun(t, words...); status != 0 || !strings.Contains(stdout,
			"add table inet pilotlight") {
			t.Errorf("%q: status %d: %s", words, status, stderr)
		}
	}
}

// A flag of Istio's injector without an effect is logged, not refused.
func TestPodInitSaysWhatIsNotDone(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"--log_output_level=default:info"}, "--log_output_level: nothing is done for it"},
		{[]string{"--log_output_level", "default:info"}, "--log_output_level: nothing is done for it"},
		{[]string{"--dual-stack"}, "--dual-stack: nothing is done for it: it is always so here"},
		{[]string{"RESOLV_CONF=/dev/null", "--redirect-dns"}, "/dev/null names no resolver: DNS is not captured"},
		{[]string{"RESOLV_CONF=/no/file", "ISTIO_META_DNS_CAPTURE=true"}, "/no/file cannot be read"},
		{[]string{"--capture-all-dns"}, "--capture-all-dns: nothing is done for it without --redirect-dns"},
		{[]string{"-e", "15008"}, "-e: nothing is done for it: tunnels"},
		{[]string{"--redirect-dns=false"}, ""},
	} {
		stdout, stderr, status := dryRun(t, test.words...)
		if status != 0 || stdout == "" || !strings.Contains(stderr, test.want) || (test.want == "" && stderr != "") {
			t.Errorf("%q: status %d, stderr %q; want %q", test.words, status, stderr, test.want)
		}
	}
}

// Help names every flag and variable that is read.
func TestPodInitHelp(t *testing.T) {
	stdout, _, status := dryRun(t, "-h")
	for _, want := range []string{
		"-p ", "-z ", "-u ", "-g ", "-m ", "-b ", "-d ", "-i ", "-x ", "-o ", "-k ", "-q ", "-c ", "-t ", "-r ", "-n,", "--drop-invalid", "explain", "--verify", "--backend", "clean",
		"$ENVOY_PORT", "$INBOUND_CAPTURE_PORT", "$PROXY_UID", "$PROXY_GID", "$ENVOY_USER", "$ISTIO_INBOUND_INTERCEPTION_MODE",
		"$ISTIO_INBOUND_TPROXY_MARK", "$ISTIO_INBOUND_TPROXY_ROUTE_TABLE", "$ISTIO_INBOUND_PORTS",
		"$ISTIO_LOCAL_EXCLUDE_PORTS", "$ISTIO_SERVICE_CIDR", "$ISTIO_SERVICE_EXCLUDE_CIDR",
		"$ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE", "$KUBEVIRT_INTERFACES",
		"$ISTIO_OUTBOUND_PORTS", "$ISTIO_EXCLUDE_INTERFACES", "$ISTIO_OUTBOUND_OWNER_GROUPS", "$ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE",
		"--redirect-dns", "--capture-all-dns", "$ISTIO_META_DNS_CAPTURE",
		"$INVALID_DROP", "$DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK",
	} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}

// The script says one thing to both backends: as many rules, and each with the same ports.
func TestPodInitRulesAreOneForAllBackends(t *testing.T) {
	for _, words := range [][]string{
		{"-b", "8080"}, {"-m", "TPROXY", "-x", "10.0.0.0/8,fd00::/8"}, {"--redirect-dns", "--capture-all-dns"},
	} {
		nft, _, _ := dryRun(t, words...)
		iptables, _, _ := dryRun(t, append([]string{"POD_INIT_BACKEND=iptables"}, words...)...)
		four, _, _ := strings.Cut(iptables, "# ip6tables-restore")
		if n, want := strings.Count(four, "-A pilotlight-"), strings.Count(nft, "add rule")-strings.Count(nft,
			" ip6 "); n != want {
			t.Errorf("%q: iptables has %d rules of IPv4, nft %d:\n%s\n%s", words, n, want, four, nft)
		}
	}
}
