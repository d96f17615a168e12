package procfs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	id1 = "0f4f7e8a2b6d4c1e9a3b5c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b"
	id2 = "b2c3d4e5f60718293a4b5c6d7e8f90a1b0f4f7e8a2b6d4c1e9a3b5c7d8e9f0a1"
	uid = "8dbc4fdb-1b42-4b3c-9c0f-3d5f4c1f6a7e"
	und = "8dbc4fdb_1b42_4b3c_9c0f_3d5f4c1f6a7e"
	sha = "a8d2c1f0b3e4d5c6b7a8f9e0d1c2b3a4" // of a static pod's manifest
)

func TestParseCgroup(t *testing.T) {
	for name, c := range map[string]struct{ text, path, id, pod string }{
		"host, systemd, v2": {"0::/system.slice/sshd.service\n", "/system.slice/sshd.service", "", ""},
		"user session, v2":  {"0::/user.slice/user-1000.slice/session-3.scope\n", "/user.slice/user-1000.slice/session-3.scope", "", ""},
		"root":              {"0::/\n", "/", "", ""},
		"empty":             {"", "", "", ""},
		"docker, systemd, v2": {
			"0::/system.slice/docker-" + id1 + ".scope\n",
			"/system.slice/docker-" + id1 + ".scope", id1, ""},
		"docker, cgroupfs, v1": {
			"12:pids:/docker/" + id1 + "\n3:cpu,cpuacct:/docker/" + id1 + "\n1:name=systemd:/docker/" + id1 +
				"\n0::/system.slice/containerd.service\n",
			"/docker/" + id1, id1, ""},
		"docker, a unit inside": {
			"0::/system.slice/docker-" + id1 + ".scope/system.slice/cron.service\n",
			"/system.slice/docker-" + id1 + ".scope/system.slice/cron.service", id1, ""},
		"Kubernetes, containerd, systemd, v2": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + und + ".slice/cri-containerd-" + id1 + ".scope\n",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + und + ".slice/cri-containerd-" + id1 + ".scope", id1, uid},
		"Kubernetes, guaranteed": {
			"0::/kubepods.slice/kubepods-pod" + und + ".slice/cri-containerd-" + id1 + ".scope\n",
			"/kubepods.slice/kubepods-pod" + und + ".slice/cri-containerd-" + id1 + ".scope", id1, uid},
		"Kubernetes, cgroupfs, v1": {
			"11:memory:/kubepods/besteffort/pod" + uid + "/" + id1 + "\n1:name=systemd:/kubepods/besteffort/pod" + uid + "/" + id1 + "\n",
			"/kubepods/besteffort/pod" + uid + "/" + id1, id1, uid},
		"Kubernetes, static pod": {
			"0::/kubepods/burstable/pod" + sha + "/" + id1 + "\n",
			"/kubepods/burstable/pod" + sha + "/" + id1, id1, sha},
		"Kubernetes, a pod's own process": {
			"0::/kubepods/burstable/pod" + uid + "\n", "/kubepods/burstable/pod" + uid, "", uid},
		"containerd given systemd's names": {
			"0::/system.slice/containerd.service/kubepods-burstable-pod" + und + ".slice:cri-containerd:" + id1 + "\n",
			"/system.slice/containerd.service/kubepods-burstable-pod" + und + ".slice:cri-containerd:" + id1, id1, uid},
		"cri-o": {
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + und + ".slice/crio-" + id1 + ".scope\n",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + und + ".slice/crio-" + id1 + ".scope", id1, uid},
		"cri-o with crun": {
			"0::/kubepods.slice/kubepods-pod" + und + ".slice/crio-" + id1 + ".scope/container\n",
			"/kubepods.slice/kubepods-pod" + und + ".slice/crio-" + id1 + ".scope/container", id1, uid},
		"cri-o's monitor": {
			"0::/kubepods.slice/kubepods-pod" + und + ".slice/crio-conmon-" + id1 + ".scope\n",
			"/kubepods.slice/kubepods-pod" + und + ".slice/crio-conmon-" + id1 + ".scope", "", uid},
		"podman, root": {
			"0::/machine.slice/libpod-" + id1 + ".scope/container\n", "/machine.slice/libpod-" + id1 + ".scope/container", id1, ""},
		"podman, rootless": {
			"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id1 + ".scope\n",
			"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id1 + ".scope", id1, ""},
		"podman's monitor": {
			"0::/machine.slice/libpod-conmon-" + id1 + ".scope\n", "/machine.slice/libpod-conmon-" + id1 + ".scope", "", ""},
		"podman, cgroupfs":     {"0::/libpod_parent/libpod-" + id1 + "\n", "/libpod_parent/libpod-" + id1, id1, ""},
		"nerdctl":              {"0::/system.slice/nerdctl-" + id1 + ".scope\n", "/system.slice/nerdctl-" + id1 + ".scope", id1, ""},
		"containerd, cgroupfs": {"0::/default/" + id1 + "\n", "/default/" + id1, id1, ""},
		"from inside a cgroup namespace": {
			"0::/../../kubepods-pod" + und + ".slice/cri-containerd-" + id1 + ".scope\n",
			"/../../kubepods-pod" + und + ".slice/cri-containerd-" + id1 + ".scope", id1, uid},
		"a cluster in docker": {
			"0::/docker/" + id2 + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/" +
				"kubelet-kubepods-besteffort-pod" + und + ".slice/cri-containerd-" + id1 + ".scope\n",
			"/docker/" + id2 + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/" +
				"kubelet-kubepods-besteffort-pod" + und + ".slice/cri-containerd-" + id1 + ".scope", id1, uid},
		"docker in a pod": {
			"0::/kubepods/pod" + uid + "/" + id2 + "/docker/" + id1 + "\n",
			"/kubepods/pod" + uid + "/" + id2 + "/docker/" + id1, id1, uid},
		"Amazon ECS": {
			"9:perf_event:/ecs/" + sha + "/" + id1 + "\n", "/ecs/" + sha + "/" + id1, id1, ""},
		"Amazon ECS, Fargate": {
			"0::/ecs/" + sha + "/" + sha + "-2531612879\n", "/ecs/" + sha + "/" + sha + "-2531612879", sha + "-2531612879", ""},
		"both versions, unified at the root": {
			"5:cpuset:/docker/" + id1 + "\n0::/\n", "/docker/" + id1, id1, ""},
		"capitals are no id": {"0::/docker/" + strings.ToUpper(id1) + "\n", "/docker/" + strings.ToUpper(id1), "", ""},
		"too short":          {"0::/docker/" + id1[1:] + "\n", "/docker/" + id1[1:], "", ""},
		"tripod is no pod":   {"0::/tripod" + uid + "\n", "/tripod" + uid, "", ""},
		"colons in the path": {"0::/a:b:c\n", "/a:b:c", "", ""},
		"not a cgroup file":  {"hello\nworld:\n::\n", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseCgroup([]byte(c.text))
			if want := (Cgroup{Path: c.path, ContainerID: c.id, PodUID: c.pod}); got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("0::/kubepods/besteffort/pod" + uid + "/" + id1 + "\n"))
	f.Add([]byte("1:name=systemd:/docker/" + id1 + "\n0::/\n"))
	f.Add([]byte("0::/x-pod" + und + ".slice:cri-containerd:" + id1 + "\n"))
	f.Add([]byte("0::/ecs/" + sha + "-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := parseCgroup(b)
		if c.ContainerID != "" && !isHex(c.ContainerID, 64) && !isTask(c.ContainerID) {
			t.Fatalf("%+v", c)
		}
		if c.PodUID != "" && !isHex(c.PodUID, 32) && !isUUID(c.PodUID) {
			t.Fatalf("%+v", c)
		}
	})
}

// TestCgroupByID makes a control group as a container runtime does and finds it by its id, which is its inode number.
func TestCgroupByID(t *testing.T) {
	mount := ""
	if err := inUnified(func(m string) error { mount = m; return nil }); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not supported: ", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("not supported: a control group can be made by root only")
	}
	dir := mount + "/docker-" + id2 + ".scope"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	fs := New("/proc")
	want := Cgroup{Path: strings.TrimPrefix(dir, mount), ContainerID: id2}
	if got, err := fs.CgroupByID(st.Ino); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if id, err := fs.CgroupID(want.Path); err != nil || id != st.Ino {
		t.Errorf("%s has id %d, %v, want %d", want.Path, id, err, st.Ino)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := fs.CgroupByID(st.Ino); err == nil {
		t.Errorf("a group that is gone: %+v", got)
	}
}
