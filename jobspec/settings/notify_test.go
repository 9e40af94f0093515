package settings

import (
	"slices"
	"strings"
	"testing"
)

// Labels are written to ledgers and messages, so they must not contain secrets, and must be unique.
func TestLabelsHideSecretsAndAreUnique(t *testing.T) {
	const secret = "s3cr3t"
	var all []Notify
	want := []string{}
	for _, c := range []struct{ url, command, label string }{
		{"https://hooks.slack.com/services/" + secret, "", "slack"},
		{"https://hooks.slack.com/services/x" + secret, "", "slack #2"},
		{"$TEAM_URL", "", "$TEAM_URL"},
		{"${TEAM_URL}/" + secret, "", "$TEAM_URL #2"},
		{"slack+$HOST/" + secret, "", "slack #3"},
		{"https://user:" + secret + "@example.org/", "", "webhook"},
		{"smtps://user:" + secret + "@example.org?to=me@example.org", "", "mail"},
		{"https://" + secret + ".webhook.office.com/a", "", "teams"},
		{"https://ntfy.sh.example.org/" + secret, "", "webhook #2"},
		{secret, "", "a URL"},
		{"", "/usr/bin/notify-send " + secret, "command notify-send"},
		{"", "TOKEN=" + secret + " curl x", "command curl"},
		{"", "TOKEN=" + secret, "command"},
	} {
		all, want = append(all, Notify{URL: c.url, Command: c.command}), append(want, c.label)
	}
	got := Labels(all)
	if !slices.Equal(got, want) || strings.Contains(strings.Join(got, ""), secret) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzServiceOf(f *testing.F) {
	for _, url := range []string{"https://hooks.slack.com/a", "slack+http://h/", "smtps://a:b@h?to=c", "$X", "http://[::1]:80/%zz"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		service, address, err := ServiceOf(url)
		if err == nil && (service == "" || address == "") || err != nil && address != "" {
			t.Errorf("%q: got service %q, address %q, %v", url, service, address, err)
		}
		if again, same, err := ServiceOf(service + "+" + address); err == nil && service != Mail && (again != service || same != address) {
			t.Errorf("%q is %s at %q, but with the service named, it is %s at %q", url, service, address, again, same)
		}
		n := Notify{URL: url}
		n.label()
	})
}
