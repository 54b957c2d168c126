package reducer

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
)

// share assigns partitions to members: to each as many as to any other, or one more,
// and to each as far as that allows those for which it has the highest weight
// (rendezvous hashing), so that a change of members moves few. It is a function of the
// set, so processes that see the same members agree without a word.
func share(partitions int, members []string) []string {
	type pair struct {
		weight    uint64
		partition int
		member    string
	}
	pairs := make([]pair, 0, partitions*len(members))
	for _, m := range members {
		for p := range partitions {
			pairs = append(pairs, pair{weigh(p, m), p, m})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.partition, b.partition), cmp.Compare(a.member, b.member))
	})
	owners := make([]string, partitions)
	load := map[string]int{}
	least, extra := partitions/max(len(members), 1), partitions%max(len(members), 1)
	for _, x := range pairs {
		if owners[x.partition] != "" || load[x.member] > least || load[x.member] == least && extra == 0 {
			continue
		}
		if load[x.member] == least {
			extra--
		}
		load[x.member]++
		owners[x.partition] = x.member
	}
	return owners
}

// weigh is a hash of the pair. FNV alone keeps neighbours alike in its high bits, so
// they are mixed (the finalizer of splitmix64).
func weigh(partition int, member string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(member))
	h.Write([]byte("/" + strconv.Itoa(partition)))
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// mine says whether a partition is this process's to work on.
func (r *Reducer) mine(p int) bool {
	if r.cfg.Members == nil {
		return true
	}
	live, known := r.cfg.Members.Live()
	return known && share(r.cfg.Partitions, live)[p] == r.cfg.Instance
}
