package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

var chainScripts = luafile.New("bloom", files)

var (
	chainReserveScript = chainScripts.Script("chain_reserve")
	chainInsertScript  = chainScripts.Script("chain_insert")
	chainCommitScript  = chainScripts.Script("chain_commit")
	chainExistsScript  = chainScripts.Script("chain_exists")
	chainHeaderScript  = chainScripts.Script("chain_header")
	chainChunkScript   = chainScripts.Script("chain_chunk")
	chainSetScript     = chainScripts.Script("chain_set")
)

// ChainScripts returns the scripts of chains, for servers that load them ahead of use.
func ChainScripts() []*redoubt.Script { return chainScripts.All() }

// The functions below make commands that do on a plain server what the BF commands of RedisBloom do,
// and read their replies. They are for the commands of the server: a Filter of package bloom takes less
// memory and time.

// ChainStatus is the result of a command on a chain.
type ChainStatus int

const (
	// ChainMade: a chain was made of the header of a dump.
	ChainMade ChainStatus = 2
	// ChainDone: the command was done.
	ChainDone ChainStatus = 1
	// ChainMissing: there is no chain. As a reply to [ChainReserveCmd]: there is one already.
	ChainMissing ChainStatus = 0
	// ChainWrongType: the key holds something else.
	ChainWrongType ChainStatus = -1
	// ChainUnknownPart: no link has this part of a dump.
	ChainUnknownPart ChainStatus = -2
	// ChainTooLong: a part of a dump goes beyond the end of a link.
	ChainTooLong ChainStatus = -3
	// ChainTooMuch: the work is too long for one script; nothing was done.
	ChainTooMuch ChainStatus = -4
)

// maxLooks is how many bits one script may look at for many items: some 5 ms.
const maxLooks = 6000

// The statuses of an item after [ChainInsertCmd].
const (
	ItemNew     = 1
	ItemOld     = 0
	ItemNoLink  = -1 // the next link would have no room or no error rate
	ItemFull    = -2 // the chain is full and fixed; no more items were looked at
	ItemTooLong = -3 // the next link would make the string too long
)

// ChainReserveCmd makes a chain. A spec that needs more than the longest string gives an error that
// matches [ErrTooLarge].
func ChainReserveCmd(key string, s ChainSpec) (redoubt.Cmd, error) {
	c := newChain(s)
	tail, err := c.tail()
	return call(chainReserveScript, 0, []string{key}, tail, decimal(int64(c.dataLen()))), err //nolint:gosec // tail has checked it
}

// ChainItems are the hashes of items.
type ChainItems []chainItem

// A chainItem is two hashes of an item. The second has the first as seed.
type chainItem struct{ a, b uint64 }

// HashItems returns the hashes of items. It does not keep the items.
func HashItems[T string | []byte](items []T) ChainItems {
	hashes := make(ChainItems, len(items))
	for i, item := range items {
		a := Murmur64A(string(item), 0xc6a4a7935bd1e995)
		hashes[i] = chainItem{a, Murmur64A(string(item), a)}
	}
	return hashes
}

func (items ChainItems) append(args []string) []string {
	for _, item := range items {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], item.a)
		binary.LittleEndian.PutUint64(b[8:], item.b)
		args = append(args, string(b[:]))
	}
	return args
}

// ChainInsertCmd adds items. If there is no chain it makes one from s, unless s is nil. The error
// is that of [ChainReserveCmd]. Several items may be too many for one script: see [Chains.Insert].
func ChainInsertCmd(key string, s *ChainSpec, items ChainItems) (redoubt.Cmd, error) {
	args := make([]string, 4, 4+len(items))
	args[1], args[2], args[3] = "0", decimal(MaxChainBytes), decimal(maxLooks)
	if s != nil {
		c := newChain(*s)
		tail, err := c.tail()
		if err != nil {
			return redoubt.Cmd{}, err
		}
		args[0], args[1] = tail, decimal(int64(c.dataLen())) //nolint:gosec // tail has checked it
	}
	return call(chainInsertScript, 0, []string{key}, items.append(args)...), nil
}

// ReadInserted reads the reply to [ChainInsertCmd]: the status of each item.
func ReadInserted(r redoubt.Reply) (ChainStatus, []int64, error) {
	n, err := readInts(r)
	if err != nil {
		return 0, nil, err
	}
	if len(n) == 0 {
		return 0, nil, errors.New("bloom: reply of chain_insert.lua is empty")
	}
	return ChainStatus(n[0]), n[1:], nil
}

// ChainExistsCmd looks up items. Several may be too many for one script: see [Chains.Exists].
func ChainExistsCmd(key string, items ChainItems) redoubt.Cmd {
	return call(chainExistsScript, redoubt.ReadOnly, []string{key}, items.append([]string{decimal(maxLooks)})...)
}

// ReadExists reads the reply to [ChainExistsCmd]: 1 for each of n items that may be in the chain.
// The status is ChainDone or ChainTooMuch.
func ReadExists(r redoubt.Reply, n int) (ChainStatus, []int64, error) {
	in, err := readInts(r)
	switch {
	case err != nil:
		return 0, nil, err
	case len(in) == 1 && in[0] == int64(ChainTooMuch):
		return ChainTooMuch, nil, nil
	case len(in) != n:
		return 0, nil, fmt.Errorf("bloom: reply of chain_exists.lua has %d elements, want %d", len(in), n)
	}
	return ChainDone, in, nil
}

// ReadStatus reads the reply to [ChainReserveCmd].
func ReadStatus(r redoubt.Reply) (ChainStatus, error) {
	var n [1]int64
	err := r.Ints(n[:])
	return ChainStatus(n[0]), err
}

// ChainHeaderCmd reads the end of a chain.
func ChainHeaderCmd(key string) redoubt.Cmd {
	return call(chainHeaderScript, redoubt.ReadOnly, []string{key})
}

// ChainInfo describes a chain.
type ChainInfo struct {
	// Capacity is the capacity of all links together. Items is how many items were added.
	Capacity, Items int64
	// Size is the memory that RedisBloom would take, in bytes.
	Size int64
	// Links is the number of filters.
	Links int
	// Expansion and Fixed are as in [ChainSpec].
	Expansion int64
	Fixed     bool
	// ErrorRate is what the chain was made with.
	ErrorRate float64
	// FillRatio is the part of the bits that the items are expected to have set, and EstimatedError the error rate that
	// follows from it.
	FillRatio, EstimatedError float64
	// Header is the first part of a dump.
	Header string
}

// ReadHeader reads the reply to [ChainHeaderCmd].
func ReadHeader(r redoubt.Reply) (ChainStatus, ChainInfo, error) {
	status, tail, err := readPart(r)
	if err != nil || status != ChainDone {
		return status, ChainInfo{}, err
	}
	c, ok := parseTail(tail)
	if !ok {
		return ChainWrongType, ChainInfo{}, nil
	}
	i := ChainInfo{Items: signed(c.size), Size: 32, Links: len(c.links), Expansion: int64(c.growth), Fixed: c.options&nonScaling != 0, Header: c.header()}
	bits, right := 0.0, 1.0 // right: an item that was not added is in no link
	for _, l := range c.links {
		i.Capacity += signed(l.entries)
		i.Size += 64 + signed(l.bytes)
		fill := -math.Expm1(-float64(l.hashes) * float64(l.size) / float64(l.bits))
		bits += float64(l.bits)
		i.FillRatio += float64(l.bits) * fill
		right *= 1 - math.Pow(fill, float64(l.hashes))
	}
	i.FillRatio /= bits
	i.EstimatedError = 1 - right
	if i.ErrorRate = c.links[0].rate; !i.Fixed {
		i.ErrorRate *= 2 // the first link has half of it
	}
	return status, i, nil
}

// signed is n as C prints it.
func signed(n uint64) int64 { return int64(n) } //nolint:gosec // as it says

// ChunkBytes is the largest part of a dump that is read or written in one step, which takes a
// script 3 ms. The module's parts have 16 MiB: see [Chains.Load].
const ChunkBytes = 2 << 20

// ChainReadCmd reads the part of a dump that follows the part with iter.
func ChainReadCmd(key string, iter int64) redoubt.Cmd {
	return call(chainChunkScript, redoubt.ReadOnly, []string{key}, position(iter), decimal(ChunkBytes), "", "", "0", "")
}

// ChainLoadCmd writes a part of a dump, as BF.LOADCHUNK takes it: iter is the number that came with
// the part. With iter 1 the part is a header, and makes a chain unless there is one. The error of a
// header matches [ErrBadDump], [ErrOldDump] or [ErrTooLarge]; it matters only if the reply says
// that there is no chain.
func ChainLoadCmd(key string, iter int64, data string) (redoubt.Cmd, error) {
	at, tail, length := position(-1), "", int64(0)
	var err error
	if iter >= int64(len(data)) {
		at = position(iter - int64(len(data)))
	}
	bits := data
	if at == position(-1) {
		bits = "" // the script does not read it
	}
	if iter == 1 {
		var c chain
		if c, err = parseHeader(data); err == nil {
			tail, err = c.tail()
			length = int64(c.dataLen()) //nolint:gosec // tail has checked it
		}
	}
	version := string(binary.LittleEndian.AppendUint64(nil, rand.Uint64()))
	return call(chainChunkScript, 0, []string{key}, at, "0", bits, tail, decimal(length), version), err
}

// position is where a part begins, given iter, which counts from 1. A number that a double does not
// hold is nowhere.
func position(iter int64) string {
	if iter < 1 || iter > MaxChainBytes {
		return "-1"
	}
	return decimal(iter - 1)
}

// ReadPart reads the reply to [ChainReadCmd] and [ChainLoadCmd].
func ReadPart(r redoubt.Reply) (ChainStatus, string, error) { return readPart(r) }

func readPart(r redoubt.Reply) (ChainStatus, string, error) {
	a, err := r.Array()
	if err != nil {
		return 0, "", err
	}
	if len(a) != 2 {
		return 0, "", fmt.Errorf("bloom: reply has %d elements, want 2", len(a))
	}
	status, err := redoubt.Reply{Val: a[0]}.Int()
	if err != nil {
		return 0, "", err
	}
	text, err := redoubt.Reply{Val: a[1]}.Text()
	if status < math.MinInt32 || status > math.MaxInt32 {
		return 0, "", fmt.Errorf("bloom: status %d", status)
	}
	return ChainStatus(status), text, err
}

func readInts(r redoubt.Reply) ([]int64, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	n := make([]int64, len(a))
	return n, redoubt.Reply{Val: a}.Ints(n)
}
