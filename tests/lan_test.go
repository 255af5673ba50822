package tests

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// lan is a star of network namespaces around a hub. They have no names and are not mounted, so that
// they end with the test or its process, and the processes in them.
type lan struct {
	hub   string   // the file of the hub's namespace, whose address is hubAddress
	nodes []string // the files of the nodes' namespaces, whose addresses are nodeAddress(0) and so on
}

// The addresses are from a range for documentation, which no engine gives to a network.
const (
	lanRange   = "198.51.100.0/24"
	hubAddress = "198.51.100.254"
)

func nodeAddress(node int) string { return "198.51.100." + strconv.Itoa(node+1) }

func newLAN(t *testing.T, nodes int) lan {
	t.Helper()
	l := lan{hub: newNetwork(t)}
	hostScript(t, "/", `
		nsenter --net="$1" ip link add hub type bridge
		nsenter --net="$1" ip address add "$2"/24 dev hub
		nsenter --net="$1" ip link set hub up`, l.hub, hubAddress)
	for i := range nodes {
		node := newNetwork(t)
		hostScript(t, "/", `
			nsenter --net="$1" ip link add "$2" type veth peer name eth0 netns "$3"
			nsenter --net="$1" ip link set "$2" master hub up
			nsenter --net="$3" ip address add "$4"/24 dev eth0
			nsenter --net="$3" ip link set eth0 up
			nsenter --net="$3" ip link set lo up`, l.hub, fmt.Sprint("node", i), node, nodeAddress(i))
		l.nodes = append(l.nodes, node)
	}
	return l
}

// newNetwork makes a network namespace for the test and returns its file.
func newNetwork(t *testing.T) string {
	t.Helper()
	var file *os.File
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd())
}

// serve serves HTTP on port 80 of the hub.
func (l lan) serve(t *testing.T, handler http.Handler) {
	t.Helper()
	var listener net.Listener
	err := onThread(func() error {
		network, err := os.Open(l.hub)
		if err != nil {
			return err
		}
		defer network.Close()
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		listener, err = net.Listen("tcp", hubAddress+":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}
