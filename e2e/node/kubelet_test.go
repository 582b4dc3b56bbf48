//go:build node

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// group is the control group of the node's Pods, of its process.
func group() string { return "pilotlight-node" }

// archive is the path of an image of this machine's kind that make image has written.
func archive(name string) string { return lab.Path("run", "image", name+"-"+runtime.GOARCH+".tar") }

// runtime starts containerd, with the images.
func (n *node) runtime() {
	n.t.Helper()
	n.write("cni/10-bridge.conflist", `{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
  "type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "`+n.in("ipam")+`"}},
{"type": "portmap", "capabilities": {"portMappings": true}}]}`)
	n.start("containerd", part("containerd"), "--config", n.write("containerd.toml", fmt.Sprintf(`
version = 3
root = %q
state = %q
[grpc]
address = %q
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = %q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "localhost/pause:1"
`, n.in("containerd"), n.in("state"), n.in("containerd.sock"), n.in("cni"))))
	n.eventually(30*time.Second, func() error {
		_, err := n.ctr("version")
		return err
	})
	n.image("localhost/pause:1", "busybox", "/bin/busybox", `["/busybox", "sleep", "2147483647"]`)
	program := n.in("bookinfo")
	n.must("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./examples/bookinfo")
	n.image("docker.io/pilotlight/bookinfo:dev", "bookinfo", program, `["/bookinfo"]`)
	for _, name := range []string{"proxy", "discovery"} {
		n.load(archive(name))
	}
}

func (n *node) ctr(args ...string) (string, error) {
	return n.run(part("ctr"), append([]string{"-a", n.in("containerd.sock"), "-n", "k8s.io"}, args...)...)
}

func (n *node) load(path string) {
	n.t.Helper()
	_, err := n.ctr("images", "import", "--local", path)
	check(n.t, err)
}

// image loads an image with one program.
func (n *node) image(reference, name, program, entrypoint string) {
	n.t.Helper()
	context := n.in("context-" + name)
	n.write("context-"+name+"/Dockerfile", "FROM scratch\nCOPY "+name+" /"+name+"\nENTRYPOINT "+entrypoint+"\n")
	n.must("cp", program, filepath.Join(context, name))
	buildah := []string{"--root", n.in("buildah"), "--runroot", n.in("buildah-run"), "--storage-driver", "vfs"}
	n.must("buildah", append(slices.Clone(buildah), "bud", "--quiet", "--isolation", "chroot", "--pull-never", "-t", reference, context)...)
	written := n.in(name + ".tar")
	n.must("buildah", append(slices.Clone(buildah), "push", "--quiet", reference, "oci-archive:"+written+":"+reference)...)
	n.load(written)
}

// kubelet starts the kubelet, and waits until the node is ready.
func (n *node) kubelet() {
	n.t.Helper()
	makeGroups(n.t)
	n.start("kubelet", part("kubelet"), "--kubeconfig", n.in("node.kubeconfig"), "--hostname-override", "node1", "--node-ip", address,
		"--root-dir", n.in("kubelet"), "--cert-dir", n.in("pki"), "--config", n.write("kubelet.yaml", fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[1]s/ca.pem}}
authorization: {mode: Webhook}
tlsCertFile: %[1]s/kubelet.pem
tlsPrivateKeyFile: %[1]s/kubelet.key
cgroupDriver: cgroupfs
cgroupRoot: /%[2]s
failCgroupV1: false
failSwapOn: false
clusterDNS: [%[3]s]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
featureGates: {KubeletInUserNamespace: true} # a container of ours may not raise its limits either
oomScoreAdj: 0
resolvConf: /dev/null
podLogsDir: %[1]s/pods
imageGCHighThresholdPercent: 100
evictionHard: {imagefs.available: 1%%, memory.available: 100Mi, nodefs.available: 1%%, nodefs.inodesFree: 1%%}
localStorageCapacityIsolation: false
`, n.dir, group(), address)))
	n.eventually(time.Minute, func() error {
		_, err := n.run(part("kubectl"), "wait", "--for=condition=Ready", "--timeout=5s", "node/node1")
		return err
	})
}

// hierarchies are the places where control groups are made: one in version 2, one for each controller in version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}, nil
	}
	return filepath.Glob("/sys/fs/cgroup/*")
}

func makeGroups(t *testing.T) {
	t.Helper()
	all, err := hierarchies()
	check(t, err)
	for _, at := range all {
		dir := filepath.Join(at, group())
		check(t, os.MkdirAll(dir, 0o755))
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(at, file)); err == nil {
				check(t, os.WriteFile(filepath.Join(dir, file), text, 0o644))
			}
		}
	}
}

// removeGroups removes the node's control groups, innermost first. Its processes have ended.
func removeGroups(t *testing.T) {
	all, err := hierarchies()
	check(t, err)
	for _, at := range all {
		var found []string
		err := filepath.WalkDir(filepath.Join(at, group()), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		check(t, err)
		slices.SortFunc(found, func(a, b string) int { return strings.Compare(b, a) })
		for _, path := range found {
			if err := lab.Eventually(10*time.Second, func() error { return os.Remove(path) }); err != nil {
				t.Errorf("remove a control group: %v", err)
			}
		}
	}
}
