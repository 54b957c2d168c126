package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// TestStreamsOfOthers: a process that does not manage the streams changes nothing and
// says everything that differs; one with another number of partitions is refused in
// either mode; with the right layout it runs.
func TestStreamsOfOthers(t *testing.T) {
	srv, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	t.Setenv("CLUSTER_PASSWORD", srv.Password())
	dir := t.TempDir()
	write(t, dir, "turnfold.yaml", "nats: {url: \""+srv.URL()+"\", user: "+srv.User()+", password_env: CLUSTER_PASSWORD}\npartitions: 2\nlease: {ttl: 1s}\n")
	line := []string{"serve", "--roles", "executor,reducer"}
	refused := func(want string, set ...string) {
		t.Helper()
		code, _, errs := invoke(t, dir, append(line, set...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %s; want %d and %q", set, code, errs, exitUsage, want)
		}
	}
	refused("TF_FX_1 does not exist", "--set", "streams.manage=false")

	conn, err := jet.Connect(t.Context(), jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.State(t.Context(), subjects.EventsStream(0)); err == nil {
		t.Error("a stream was made by a process that manages none")
	}
	if err := conn.Ensure(t.Context(), subjects.Layout{Partitions: 2, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	refused("was created for 2 partitions", "--set", "partitions=4")
	refused("turnfold-partitions 2, not 4", "--set", "partitions=4", "--set", "streams.manage=false")
	refused("cannot identify", "--set", "nats.tls.ca=none.pem")

	cmd := product(t, dir, append(line, "--set", "streams.manage=false")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	leases := conn.Bucket(subjects.BucketLeases)
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if keys, err := leases.Keys(t.Context(), "partition.*"); err == nil && len(keys) == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("nobody owns the partitions")
		}
	}
	members, err := conn.Bucket(subjects.BucketMembers).Keys(t.Context(), "")
	if err != nil || len(members) != 2 {
		t.Errorf("members are %v, %v; want one of each role", members, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says how it ended
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted && code != exitOK {
		t.Errorf("exit %d after SIGTERM", code)
	}
	for what, bucket := range map[string]string{"leases": subjects.BucketLeases, "members": subjects.BucketMembers} {
		if keys, err := conn.Bucket(bucket).Keys(t.Context(), ""); err != nil || len(keys) != 0 {
			t.Errorf("%s after a planned stop: %v, %v", what, keys, err)
		}
	}
}
