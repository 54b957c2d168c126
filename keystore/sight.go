package keystore

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
)

// Nearly every key that is looked at has never been seen before. So each file has a
// filter of the keys in it, and a look at a new one reads no block of it.
// Source: docs/adr/0007-filters-in-the-key-store.md.

const (
	// filterBits a key: one look in a hundred reads a block for nothing.
	filterBits = 10
	// fileBytes keeps the filter of a file small beside the cache that it is read into.
	fileBytes = 8 << 20
	// keySchema names how files that know the prefixes of rows are laid out.
	keySchema = "turnfold.facts.1"
	// prefixBundle is the library's own default.
	prefixBundle = 16
)

// byFact orders rows by their bytes. The prefix of a fact row, which filters go by, is
// all that its key's rows have in common; any other row is its own.
//
// The order is that of the library's own comparer, and so is the name: files from before
// there were filters are read with the layout that they name.
func byFact() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Split = factSplit
	return &c
}

// factSplit is the length of a row's prefix. What is no row (the library cuts some short,
// to tell files apart) is its own prefix.
func factSplit(row []byte) int {
	if len(row) == 0 || row[0] != rowFact {
		return len(row)
	}
	n, err := packedLen(row[1:])
	if err != nil {
		return len(row)
	}
	return 1 + n
}

// eachOf calls fn with every row of a key, whose factRow is prefix, as each does.
func eachOf(r pebble.Reader, prefix []byte, fn func(row, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return err
	}
	return drain(it, it.SeekPrefixGE(prefix), fn)
}

// filtered has o write files with filters, and read those without.
func filtered(o *pebble.Options) {
	o.Comparer = byFact()
	facts := colblk.DefaultKeySchema(o.Comparer, prefixBundle)
	facts.Name = keySchema
	plain := colblk.DefaultKeySchema(pebble.DefaultComparer, prefixBundle)
	o.KeySchema, o.KeySchemas = facts.Name, sstable.MakeKeySchemas(&facts, &plain)
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
		o.TargetFileSizes[i] = fileBytes
	}
}
