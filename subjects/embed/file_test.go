package embed

import (
	"testing"
)

// TestSampleConfiguration reads the sample for a cluster as the server will.
func TestSampleConfiguration(t *testing.T) {
	for name, value := range map[string]string{"NATS_NAME": "nats-1", "NATS_PASSWORD": "secret", "NATS_SYS_PASSWORD": "other"} {
		t.Setenv(name, value)
	}
	o, err := options("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !o.SyncAlways || !o.JetStream || o.ServerName != "nats-1" || o.Cluster.Name != "turnfold" || len(o.Routes) != 3 {
		t.Errorf("the sample says sync_interval: always %v, JetStream %v, name %q, cluster %q, %d routes",
			o.SyncAlways, o.JetStream, o.ServerName, o.Cluster.Name, len(o.Routes))
	}
	if o.MaxPayload < defaultPayloadBytes {
		t.Errorf("the sample takes messages of %d bytes, the embedded server of %d", o.MaxPayload, defaultPayloadBytes)
	}
	if err := CheckFile("none.conf"); err == nil {
		t.Error("a file that does not exist is read")
	}
}
