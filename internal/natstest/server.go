// Package natstest runs NATS servers for tests, inside their own process: one, or several
// that are one cluster. In a turn the package has no part.
package natstest

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTime is how long a server, or the routes of a cluster, may take.
const startTime = 30 * time.Second

// Server is a NATS server on this machine.
type Server struct {
	options server.Options
	running *server.Server
}

// Start runs a server until the test ends. Changes are made to its options before.
func Start(t testing.TB, changes ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}}
	for _, change := range changes {
		change(&s.options)
	}
	s.Again(t)
	t.Cleanup(s.Stop)
	return s
}

// Again runs a server that was stopped, on the port that it had.
func (s *Server) Again(t testing.TB) {
	t.Helper()
	options := s.options.Clone()
	running, err := server.NewServer(options)
	if err != nil {
		t.Fatal("start NATS:", err)
	}
	running.Start()
	if !running.ReadyForConnections(startTime) {
		t.Fatal("NATS did not start")
	}
	s.running = running
	s.options.Port = running.Addr().(*net.TCPAddr).Port
}

// Stop ends the server at once: whoever is connected finds the connection closed.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// URL is where clients find the server, also while it does not run.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// Cluster runs so many servers that are one, until the test ends.
func Cluster(t testing.TB, size int) []*Server {
	t.Helper()
	var servers []*Server
	var routes []string
	for range size {
		s := Start(t, func(o *server.Options) {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		})
		s.options.Cluster.Port = s.running.ClusterAddr().Port
		routes = append(routes, "nats://"+s.running.ClusterAddr().String())
		servers = append(servers, s)
	}
	deadline := time.Now().Add(startTime)
	for _, s := range servers {
		for s.running.NumRemotes() < size-1 {
			if time.Now().After(deadline) {
				t.Fatalf("a NATS server knows %d others, want %d", s.running.NumRemotes(), size-1)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return servers
}
