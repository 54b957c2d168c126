package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/turnfold/turnfold/reducer/audit"
)

// What a compressed file may ask for. Both are far above what archives are written with:
// a file that needs more is hostile.
const (
	windowBytesMax = 16 << 20
	decoderBytes   = 64 << 20
)

// Source is a file that holds a bundle, compressed or not.
type Source struct {
	Path  string
	Entry *Entry // what its archive's manifest says of it; nil for a file by itself
	of    *ManifestHead
}

// Sources lists the bundles that paths name: files, and archives with all that is in
// them. An archive that is not complete is refused.
func Sources(paths []string) ([]Source, error) {
	var out []Source
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, Source{Path: path})
			continue
		}
		m, err := ReadManifest(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w: it has no %s: it is no archive, or one that was never finished; run turnfold archive again", path, audit.ErrBundle, ManifestName)
		}
		if err != nil {
			return nil, err
		}
		if !m.Head.Complete {
			return nil, fmt.Errorf("%s: %w: the last run of turnfold archive did not come to its end; run it again", path, audit.ErrBundle)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Entries)) {
			e := m.Entries[name]
			out = append(out, Source{Path: filepath.Join(path, filepath.FromSlash(e.File)), Entry: &e, of: &m.Head})
		}
	}
	return out, nil
}

// Read hands the bundle's text to fn, in bounded memory. What an archive's manifest says
// of a file is checked when fn is done with it, and before fn's error is believed.
func (s Source) Read(fn func(io.Reader) error) error {
	f, err := os.Open(s.Path)
	if err != nil {
		if s.Entry != nil && errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: turn %s is in the manifest, and its file is missing", audit.ErrBundle, s.Entry.Turn)
		}
		return err
	}
	defer f.Close()
	sum := newSum()
	in := bufio.NewReaderSize(io.TeeReader(f, sum), 64<<10)
	err = unpacked(in, fn)
	if s.Entry == nil {
		return named(s.Path, err)
	}
	if _, rest := io.Copy(io.Discard, in); rest != nil {
		return rest
	}
	if got := sum.hex(); got != s.Entry.SHA256 || sum.n != s.Entry.Bytes {
		return named(s.Path, errors.Join(fmt.Errorf("%w: it has not the bytes that the archive's manifest names", audit.ErrBundle), err))
	}
	return named(s.Path, err)
}

func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// zstdMagic begins a compressed file.
const zstdMagic = "\x28\xb5\x2f\xfd"

func unpacked(in *bufio.Reader, fn func(io.Reader) error) error {
	if head, _ := in.Peek(len(zstdMagic)); string(head) != zstdMagic {
		return fn(in)
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(windowBytesMax), zstd.WithDecoderMaxMemory(decoderBytes))
	if err != nil {
		return fmt.Errorf("%w: %w", audit.ErrBundle, err)
	}
	defer z.Close()
	return fn(z)
}

// Verify audits a bundle with nothing but the bundle.
func (s Source) Verify(settled bool, each func(audit.Verdict)) (audit.Evidence, error) {
	var e audit.Evidence
	err := s.Read(func(r io.Reader) error {
		var err error
		e, err = audit.Verify(r, settled, each)
		return err
	})
	if err == nil && s.of != nil && (e.Head.Deployment != s.of.Deployment || e.Head.Turn != s.Entry.Turn) {
		err = named(s.Path, fmt.Errorf("%w: it is of turn %s of deployment %s, its archive says %s of %s",
			audit.ErrForeign, e.Head.Turn, e.Head.Deployment, s.Entry.Turn, s.of.Deployment))
	}
	return e, err
}
