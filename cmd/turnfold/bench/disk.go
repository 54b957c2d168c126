package bench

import (
	"errors"
	"os"
	"time"
)

// DiskReport is what a sync costs when nobody else asks for one: an effect waits for two,
// and for those of others that are under way.
type DiskReport struct {
	SyncP50 int64 `json:"sync_p50_us"`
	SyncP99 int64 `json:"sync_p99_us"`
}

const (
	diskSyncs = 300
	diskBytes = 4096
)

// measureDisk overwrites a file piece by piece, each synced, as a log does that is used
// again.
func measureDisk(name string) (r DiskReport, err error) {
	f, err := os.Create(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	piece := make([]byte, diskBytes)
	if _, err := f.Write(make([]byte, diskSyncs*diskBytes)); err != nil {
		return r, err
	}
	if err := f.Sync(); err != nil {
		return r, err
	}
	var took []time.Duration
	for i := range diskSyncs {
		if _, err := f.WriteAt(piece, int64(i*diskBytes)); err != nil {
			return r, err
		}
		at := time.Now()
		if err := f.Sync(); err != nil {
			return r, err
		}
		took = append(took, time.Since(at))
	}
	r.SyncP50, r.SyncP99 = quantile(took, 0.5), quantile(took, 0.99)
	return r, nil
}
