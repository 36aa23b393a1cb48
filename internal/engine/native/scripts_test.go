package native_test

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

// leftToLua are the module's scripts that have no function, by path, and why.
var leftToLua = map[string]string{
	"bitmap/lua/calendar_mark.lua": "not shown hot by a profile",
	"bitmap/lua/map_combine.lua":   "BITOP is most of it",
	"bitmap/lua/map_drop.lua":      "once a map",
	"bitmap/lua/map_expire.lua":    "once a map",
	"bitmap/lua/map_index.lua":     "once a shard",
	"hll/lua/merge.lua":            "PFMERGE is most of it",
	"hll/lua/union.lua":            "PFMERGE is most of it",

	"bloom/lua/advance.lua":          "a few times a rebuild",
	"bloom/lua/begin.lua":            "once a rebuild",
	"bloom/lua/chain_chunk.lua":      "for moves",
	"bloom/lua/chain_commit.lua":     "once for thousands of items",
	"bloom/lua/chain_exists.lua":     "not shown hot by a profile",
	"bloom/lua/chain_header.lua":     "for people",
	"bloom/lua/chain_insert.lua":     "not shown hot by a profile",
	"bloom/lua/chain_reserve.lua":    "once a filter",
	"bloom/lua/chain_set.lua":        "SETBIT is most of it",
	"bloom/lua/log.lua":              "once a second and mirror",
	"bloom/lua/make.lua":             "once a filter",
	"bloom/lua/open.lua":             "once a filter",
	"bloom/lua/part_chain_links.lua": "a part of others",
	"bloom/lua/seal.lua":             "once a rebuild",
	"bloom/lua/slide.lua":            "once a minute",
	"cache/lua/invalidate.lua":       "not shown hot by a profile",
	"cache/lua/lease.lua":            "once a load or a wait",
	"cache/lua/part_head.lua":        "a part of others",
	"cache/lua/part_wake.lua":        "a part of others",
	"cache/lua/read.lua":             "once a minute",
	"cache/lua/release.lua":          "once a load that fails",
	"cache/lua/renew.lua":            "once a second and load",
	"cache/lua/set.lua":              "not shown hot by a profile",
	"cache/lua/store.lua":            "once a load",
	"cache/lua/tag.lua":              "once a load and tag",
	"cache/lua/tag_drop.lua":         "once a tag that is invalidated",
	"cache/lua/tag_mark.lua":         "once a tag that is invalidated",
	"fence/lua/guard.lua":            "runs any command of the caller's",
	"fence/lua/wrap.lua":             "runs the caller's own script, which is Lua",
	"geo/lua/announce.lua":           "once a step between cells",
	"geo/lua/arrive.lua":             "once a step between cells",
	"geo/lua/assign.lua":             "once a step between cells",
	"geo/lua/close.lua":              "once a step between cells",
	"geo/lua/freeze.lua":             "once a split",
	"geo/lua/leave.lua":              "once a step between cells",
	"geo/lua/load.lua":               "once a split",
	"geo/lua/search.lua":             "GEOSEARCH is most of it",
	"geo/lua/member.lua":             "not shown hot by a profile",
	"geo/lua/rehome.lua":             "once a split",
	"geo/lua/split.lua":              "once a split",
	"geo/lua/where.lua":              "not shown hot by a profile",
	"lock/lua/fair.lua":              "only while somebody holds the lock",
	"lock/lua/latch_down.lua":        "once a member or a wait",
	"lock/lua/latch_set.lua":         "once a member or a wait",
	"lock/lua/latch_wait.lua":        "once a member or a wait",
	"lock/lua/multi_acquire.lua":     "not shown hot by a profile",
	"lock/lua/part_grant.lua":        "a part of others",
	"lock/lua/part_leave.lua":        "a part of others",
	"lock/lua/part_wake.lua":         "a part of others",
	"lock/lua/quorum_extend.lua":     "not shown hot by a profile",
	"lock/lua/rw_claim.lua":          "once a second for a waiting writer",
	"lock/lua/rw_extend.lua":         "not shown hot by a profile",
	"lock/lua/rw_info.lua":           "for people",
	"lock/lua/sem_extend.lua":        "not shown hot by a profile",
	"lock/lua/sem_info.lua":          "for people",
	"queue/lua/cancel.lua":           "not shown hot by a profile",
	"queue/lua/config.lua":           "for people",
	"queue/lua/drain.lua":            "for people",
	"queue/lua/extend.lua":           "once in a third of a lease, for all messages of a consumer",
	"queue/lua/find.lua":             "for people",
	"queue/lua/progress.lua":         "once a second and message at most",
	"queue/lua/list.lua":             "for people",
	"queue/lua/part_after.lua":       "a part of others",
	"queue/lua/part_place.lua":       "a part of others",
	"queue/lua/requeue.lua":          "for people",
	"queue/lua/schedule.lua":         "once for each time of a schedule",
	"queue/lua/scheduled.lua":        "once in five seconds for each process",
	"queue/lua/stats.lua":            "for people",
	"queue/lua/unschedule.lua":       "for people",
	"queue/lua/time.lua":             "once a turn of a schedule",
	"ratelimit/lua/batch.lua":        "many calls at once, which share what a script costs",
	"ratelimit/lua/define.lua":       "once a limit",
	"ratelimit/lua/part_tat.lua":     "a part of others",
	"ratelimit/lua/part_tat_put.lua": "a part of others",
	"ratelimit/lua/part_tats.lua":    "a part of others",
	"ratelimit/lua/refund.lua":       "once a failure, or a wait given up",
	"ratelimit/lua/reset.lua":        "for people",
	"ratelimit/lua/return.lua":       "once a lease that is not used up",
	"ratelimit/lua/stored.lua":       "limits that are kept on the server; a part of others",
	"ratelimit/lua/upto.lua":         "not shown hot by a profile",
	"scan/lua/elements.lua":          "a thousand elements at once",
	"stock/lua/count.lua":            "for people",
	"stock/lua/info.lua":             "for people",
	"ttlhash/lua/delete.lua":         "not shown hot by a profile",
	"ttlhash/lua/expire.lua":         "not shown hot by a profile",
	"ttlhash/lua/get.lua":            "not shown hot by a profile",
	"ttlhash/lua/migrate.lua":        "once a field",
	"ttlhash/lua/part_index.lua":     "a part of others",
	"ttlhash/lua/scan.lua":           "for people",
	"ttlhash/lua/sweep.lua":          "many fields at once, which share what a script costs",
	"ttlhash/lua/time.lua":           "once a second for a node",
}

// TestEveryScriptIsAccountedFor wants a function for each script of the module,
// written after the text that it has now, or a reason why it has none.
// TestSameAsLua does the rest.
func TestEveryScriptIsAccountedFor(t *testing.T) {
	files := map[string]string{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench" || d.Name() == "examples" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case filepath.Ext(path) != ".lua":
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		text, err := luafile.Text(os.DirFS(root), rel)
		sum := sha1.Sum([]byte(text))
		files[strings.TrimPrefix(rel, "internal/wire/")] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("found only %v", files)
	}
	has := map[string]bool{}
	for digest := range native.All() {
		has[digest] = true
	}
	for _, f := range unaccounted(files, has, leftToLua) {
		t.Error(f)
	}
}

// unaccounted says what is wrong with files, the digests of scripts by path.
func unaccounted(files map[string]string, has map[string]bool, left map[string]string) (faults []string) {
	found := map[string]bool{}
	for path, digest := range files {
		found[digest] = true
		reason, there := left[path]
		switch {
		case has[digest] && there:
			faults = append(faults, path+" has a function: take it out of leftToLua")
		case !has[digest] && reason == "":
			faults = append(faults, path+" has no function for its digest "+digest+": make the one that it had follow it, or say in leftToLua why it has none")
		}
	}
	for digest := range has {
		if !found[digest] {
			faults = append(faults, "the function of "+digest+" is that of no script")
		}
	}
	for path := range left {
		if files[path] == "" {
			faults = append(faults, path+" in leftToLua is no script")
		}
	}
	slices.Sort(faults)
	return faults
}

func TestUnaccountedScriptsAreFound(t *testing.T) {
	one := map[string]string{"a/lua/x.lua": "d1"}
	for _, c := range []struct {
		has  map[string]bool
		left map[string]string
		want string
	}{
		{map[string]bool{"d1": true}, nil, ""},
		{nil, map[string]string{"a/lua/x.lua": "once an hour"}, ""},
		{nil, nil, "a/lua/x.lua has no function"},
		{nil, map[string]string{"a/lua/x.lua": ""}, "a/lua/x.lua has no function"},
		{map[string]bool{"d1": true}, map[string]string{"a/lua/x.lua": "once an hour"}, "take it out of leftToLua"},
		{map[string]bool{"d1": true, "d2": true}, nil, "the function of d2 is that of no script"},
		{map[string]bool{"d1": true}, map[string]string{"b.lua": "gone"}, "b.lua in leftToLua is no script"},
	} {
		got := strings.Join(unaccounted(one, c.has, c.left), "\n")
		if c.want == "" != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v, %v: %q, want %q", c.has, c.left, got, c.want)
		}
	}
}
