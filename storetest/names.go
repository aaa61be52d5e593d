package storetest

import (
	"slices"
	"strings"

	"github.com/fencepost/fencepost"
)

// awkward are names, all different, of which some database at some setting takes two for one, or one for syntax.
var awkward = []string{
	"a", "A", "a ", " a", "a  ", "ａ", "á", "a\u0301", "à", "ä", "å", "ª",
	"ss", "ß", "SS", "i", "I", "ı", "İ", "K", "\u212a", "æ", "ae",
	"0", "00", "0x61", "1e0", "1", "null", "NULL", "default", "true",
	"%", "_", "a%", "a_", "*", "?", "$1", ":name", "@a", "{a}", "{}", "[]", "a,b", `{"a","b"}`,
	"'", "''", `"`, `""`, "`", `\`, `\\`, `\'`, "a';--", "--", "/*", "a/b", "a%2Fb", "a%252Fb", "..", "#", "&", "<b>",
	"☕", "🚀", "🚀🚀", "👩‍🚀", "日本", "日本 ", "\u200fa", "\u202ea", "\u200b", "a\u200b", "a\u00a0", "\u00a0a", "\ufeffa", "\ufffd", "\U0010ffff",
	strings.Repeat("x", fencepost.MaxNameBytes), strings.Repeat("x", fencepost.MaxNameBytes-1) + "y", strings.Repeat("x", fencepost.MaxNameBytes-1),
	strings.Repeat("🚀", fencepost.MaxNameBytes/4), strings.Repeat("🚀", fencepost.MaxNameBytes/4-1) + "🛰",
	" ", "  ",
}

var nameTests = []test{
	{"AreComparedByteForByte", func(f *fixture) {
		tokens := map[string]fencepost.Token{}
		var all []fencepost.Token
		for _, name := range awkward {
			if err := fencepost.ValidateName(name); err != nil {
				f.Fatalf("the suite itself: %v", err)
			}
			g := f.acquire(name, long)
			if g.Token.Name != name || g.Token.Fence != 1 || g.TakenOver {
				f.Fatalf("%q is taken for another name: %+v", name, g)
			}
			tokens[name] = g.Token
			all = append(all, g.Token)
		}
		for name, token := range tokens {
			if i := f.inspect(name); i.Name != name || i.Owner != token.Owner {
				f.Errorf("Inspect(%q) = name %q of %q, want of %q", name, i.Name, i.Owner, token.Owner)
			}
			if err := f.Check(f.ctx(), token); err != nil {
				f.Error(err)
			}
			_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: "rival", TTL: long})
			if held := f.wantHeld(err, 1); held.Lease != name || held.Holder != "holder of "+token.Owner {
				f.Errorf("the refusal of %q names %q, held by %q", name, held.Lease, held.Holder)
			}
		}
		for i, r := range f.renew(all...) {
			f.wantRenewed(r, all[i].Name, f.inspect(all[i].Name).AcquiredAt)
		}
		// Each release frees one and only one.
		for n, name := range awkward {
			f.release(tokens[name])
			held := 0
			for _, i := range f.list(fencepost.ListQuery{}) {
				if i.State() == fencepost.StateHeld {
					held++
				}
			}
			if want := len(awkward) - n - 1; held != want {
				f.Fatalf("after the release of %q %d leases are held, want %d", name, held, want)
			}
			if events := f.events(fencepost.EventQuery{Lease: name}); len(events) != 2 || events[0].Lease != name || events[1].Lease != name {
				f.Errorf("events of %q: %+v", name, events)
			}
		}
	}},

	{"AreListedInByteOrder", func(f *fixture) {
		for _, name := range awkward {
			f.acquire(name, long)
		}
		want := slices.Sorted(slices.Values(awkward))
		if got := namesOf(f.list(fencepost.ListQuery{})); !slices.Equal(got, want) {
			f.Errorf("listed %q\nwant %q", got, want)
		}
		for _, size := range []int{1, 7, len(want), len(want) + 1} {
			var got []string
			after := ""
			for {
				page := namesOf(f.list(fencepost.ListQuery{After: after, Limit: size}))
				if len(page) > size {
					f.Fatalf("%d rows on a page of %d", len(page), size)
				}
				if len(page) == 0 {
					break
				}
				if got = append(got, page...); len(got) > len(want) {
					f.Fatalf("pages of %d repeat themselves: %q", size, got)
				}
				after = page[len(page)-1]
			}
			if !slices.Equal(got, want) {
				f.Errorf("pages of %d: %q\nwant %q", size, got, want)
			}
		}
	}},

	{"AListShowsWholeRows", func(f *fixture) {
		f.acquire("a", long)
		f.acquireExpired("b")
		f.release(f.acquire("c", long).Token)
		f.want("a", true)
		infos := f.list(fencepost.ListQuery{})
		if len(infos) != 3 {
			f.Fatalf("%d rows", len(infos))
		}
		for i, state := range []string{fencepost.StateHeld, fencepost.StateExpired, fencepost.StateFree} {
			info := infos[i]
			if info.State() != state || still(info) != still(f.inspect(info.Name)) {
				f.Errorf("listed as %+v (%s)\ninspected %+v", info, info.State(), f.inspect(info.Name))
			}
		}
	}},

	{"AnEmptyList", func(f *fixture) {
		if infos := f.list(fencepost.ListQuery{}); len(infos) != 0 {
			f.Errorf("%+v", infos)
		}
	}},

	{"LabelsAreKeptAsTheyAre", func(f *fixture) {
		labels := append(slices.Clone(awkward), "", strings.Repeat("x", fencepost.MaxHolderBytes), strings.Repeat("☕", fencepost.MaxHolderBytes/3))
		for _, label := range labels {
			owner := f.owner()
			g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: owner, Owner: owner, Holder: label, TTL: long})
			if err != nil {
				f.Errorf("holder %q: %v", label, err)
				continue
			}
			if got := f.inspect(owner).Holder; got != label {
				f.Errorf("holder %q is kept as %q", label, got)
			}
			_, err = f.Preempt(f.ctx(), fencepost.PreemptRequest{Name: owner, Fence: g.Token.Fence, Owner: f.owner(), Holder: label, TTL: long, Actor: label, Reason: label})
			if err != nil {
				f.Errorf("preempted by %q: %v", label, err)
				continue
			}
			events := f.events(fencepost.EventQuery{Lease: owner})
			if len(events) != 2 || events[0].Holder != label || events[1].Holder != label || events[1].Actor != label || events[1].Reason != label {
				f.Errorf("label %q in the events: %+v", label, events)
			}
		}
	}},
}

func (f *fixture) list(q fencepost.ListQuery) []fencepost.LeaseInfo {
	f.Helper()
	infos, err := f.List(f.ctx(), q)
	if err != nil {
		f.Fatalf("List(%+v): %v", q, err)
	}
	return infos
}

func namesOf(infos []fencepost.LeaseInfo) []string {
	var names []string
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}
