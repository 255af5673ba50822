package githttp

import "testing"

// TestHolderKeepsItsConnections checks that the connections of a secret that changes are those
// of its holder, and of nobody else.
func TestHolderKeepsItsConnections(t *testing.T) {
	t.Parallel()
	c := New(Config{})
	of := func(r Remote) *pool {
		r.URL = "https://h/r"
		p, err := c.pool(r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := of(Remote{Owner: "1", User: "u", Password: "a"})
	if of(Remote{Owner: "1", User: "u", Password: "b"}) != first {
		t.Error("a new secret of one holder has connections of its own")
	}
	if len(c.pools) != 1 {
		t.Errorf("%d pools, want 1", len(c.pools))
	}
	for _, r := range []Remote{
		{Owner: "2", User: "u", Password: "a"}, {User: "u", Password: "a"}, {User: "u", Password: "b"}, {Bearer: "1"}, {User: "1"}, {},
	} {
		if of(r) == first {
			t.Errorf("%q with %q shares the connections of another holder", r.Owner, r.Password)
		}
	}
	if len(c.pools) != 7 {
		t.Errorf("%d pools, want one for each of 7 credentials", len(c.pools))
	}
}
