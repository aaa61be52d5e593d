package sqlstore_test

import (
	"errors"
	"testing"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

func TestRenderPutsTheConfiguredNamesIn(t *testing.T) {
	text := "CREATE INDEX fencepost__events_by_lease ON fencepost_events (lease_name); UPDATE fencepost_leases SET x = 'not_fencepost_x'"
	for _, tc := range []struct {
		names sqlstore.Names
		want  string
	}{
		{sqlstore.Names{Prefix: "fencepost_"}, "CREATE INDEX fencepost_events_by_lease ON fencepost_events (lease_name); UPDATE fencepost_leases SET x = 'not_fencepost_x'"},
		{sqlstore.Names{Prefix: "app_"}, "CREATE INDEX app_events_by_lease ON app_events (lease_name); UPDATE app_leases SET x = 'not_fencepost_x'"},
		{sqlstore.Names{Prefix: "app_", Schema: `"My Jobs"`}, `CREATE INDEX app_events_by_lease ON "My Jobs".app_events (lease_name); UPDATE "My Jobs".app_leases SET x = 'not_fencepost_x'`},
	} {
		if got := tc.names.Render(text); got != tc.want {
			t.Errorf("%+v:\n got %s\nwant %s", tc.names, got, tc.want)
		}
	}
}

func TestPrefixesThatCannotStandInSQLAreRefused(t *testing.T) {
	for _, bad := range []string{"", "1a", "Fence_", "a-b", "a b", "a;drop table x", `a"`, "a'", "x23456789012345678901234567890_"} {
		if err := (sqlstore.Names{Prefix: bad}).Validate(); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("prefix %q: %v", bad, err)
		}
	}
	for _, good := range []string{"fencepost_", "a", "_x9", "fencepost_demo_1f2e3d_"} {
		if err := (sqlstore.Names{Prefix: good}).Validate(); err != nil {
			t.Errorf("prefix %q: %v", good, err)
		}
	}
}
