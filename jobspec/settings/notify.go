package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A Notify is a notification target. Its URL may contain a secret, so display its label (see
// Labels) instead.
type Notify struct {
	URL         string        `json:"url,omitempty"`     // as written, with $VARIABLES; "" if Command is set
	Command     string        `json:"command,omitempty"` // run by sh, with the message on stdin
	On          []string      `json:"on"`                // events from NotifyEvents; for a job's own target, from JobNews
	MinDuration time.Duration `json:"min_duration"`      // minimum duration of a run or a job for a notification
}

// NotifyEvents lists the events of a run.
var NotifyEvents = []string{"done", "first_failure", "failure", "gpus_free", "stalled"}

// JobNews lists the events of one job. The job's own targets get all of them unless on is set.
var JobNews = []string{"success", "failure", "stalled"}

// usualEvents lists the events that are sent unless on is set.
var usualEvents = []string{"done", "first_failure", "stalled"}

// services lists the supported services, with the hosts, or suffixes of hosts, in their URLs.
var services = []struct {
	name  string
	hosts []string
}{
	{"slack", []string{"hooks.slack.com"}},
	{"discord", []string{"discord.com", "discordapp.com"}},
	{"telegram", []string{"api.telegram.org"}},
	{"ntfy", []string{"ntfy.sh"}},
	{"teams", []string{".webhook.office.com", ".logic.azure.com", ".api.powerplatform.com"}},
	{"feishu", []string{"open.feishu.cn", "open.larksuite.com"}},
	{"dingtalk", []string{"oapi.dingtalk.com"}},
	{"wecom", []string{"qyapi.weixin.qq.com"}},
	{"webhook", nil},
}

// Mail is the service for smtp: and smtps: URLs.
const Mail = "mail"

// Services returns the names of all services except mail.
func Services() []string {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = s.name
	}
	return names
}

// ServiceOf returns the service that a URL belongs to, and the URL to call. Its errors contain no
// part of the URL except its scheme.
func ServiceOf(text string) (service, address string, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	named, web, both := strings.Cut(scheme, "+")
	if !both {
		named, web = "", scheme
	}
	u, bad := url.Parse(web + "://" + rest)
	switch {
	case !found:
		return "", "", source.Faultf("write https://…, smtps://user:$PASSWORD@host?to=me@example.org, or $NAME for a variable with such a URL", "the URL has no scheme")
	case (web == "smtp" || web == "smtps") && !both && bad == nil && u.Host != "":
		if u.Query().Get("to") == "" {
			return "", "", source.Faultf("add ?to=me@example.org", "the URL has no recipient")
		}
		return Mail, u.String(), nil
	case web != "https" && web != "http":
		return "", "", source.Faultf("write https://…, or smtps://… for mail", "cannot send to %q URLs", scheme)
	case bad != nil || u.Host == "":
		return "", "", source.Faultf("copy it again", "invalid %q URL", scheme)
	case both && !slices.Contains(Services(), named):
		return "", "", source.Faultf(source.DidYouMean(named, Services(), "valid services: "+strings.Join(Services(), ", ")), "unknown service %q before +%s", named, web)
	}
	host := strings.ToLower(u.Hostname())
	for _, s := range services {
		at := slices.ContainsFunc(s.hosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+strings.TrimPrefix(h, ".")) })
		if at && !both {
			named = s.name
		}
	}
	return cmp.Or(named, "webhook"), u.String(), nil
}

// label names a target without its secrets: "slack", "$TEAM_URL", "command notify-send".
func (n *Notify) label() string {
	if n.Command != "" {
		words := strings.Fields(n.Command)
		if i := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(w, "=") }); i >= 0 {
			return "command " + filepath.Base(words[i]) // skip assignments such as TOKEN=…
		}
		return "command"
	}
	if name := variableOf(n.URL); name != "" {
		if service, _, named := strings.Cut(n.URL, "+$"); named && slices.Contains(Services(), service) {
			return service
		}
		return "$" + name
	}
	service, _, err := ServiceOf(n.URL)
	if err != nil {
		return "a URL"
	}
	return service
}

// Labels returns a unique name for each target.
func Labels(all []Notify) []string {
	times, labels := map[string]int{}, make([]string, len(all))
	for i := range all {
		labels[i] = all[i].label()
		if times[labels[i]]++; times[labels[i]] > 1 {
			labels[i] += fmt.Sprintf(" #%d", times[labels[i]])
		}
	}
	return labels
}

// Same reports whether two targets have the same address.
func (n Notify) Same(o Notify) bool { return n.URL == o.URL && n.Command == o.Command }

// variableOf returns the variable that contains the scheme of a URL; "" if the URL is written out.
func variableOf(url string) string {
	scheme, _, _ := strings.Cut(url, "://")
	_, name, _ := strings.Cut(scheme, "$")
	return nameFirst.FindString(strings.TrimPrefix(name, "{"))
}

var nameFirst = regexp.MustCompile(`^\w*`)

// notifyText returns the value of notify as JSON, one target per line. An empty list overrides other
// targets. usual holds the events for targets without an "on" key; news holds all valid events.
func notifyText(s *source.Source, n *yaml.Node, usual, news []string) (text string, ok bool) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	ok = len(nodes) == 0
	for _, item := range nodes {
		if t, is := readNotify(s, item, usual, news); is {
			line, _ := json.Marshal(t) // cannot fail: only strings and numbers
			text += string(line) + "\n"
			ok = true
		}
	}
	return text, ok
}

// JobNotify reads the notify key of a job.
func JobNotify(s *source.Source, n *yaml.Node) []Notify {
	text, _ := notifyText(s, n, JobNews, JobNews)
	all, _ := parseNotify(text)
	return all
}

func readNotify(s *source.Source, n *yaml.Node, usual, news []string) (t Notify, ok bool) {
	t.On = usual
	set := func(at *yaml.Node, name string, take func(text string) error) {
		text, tag, is := s.Scalar(at, "notify: "+name)
		if !is || tag == "!!null" {
			return
		}
		if err := take(text); err != nil {
			s.Out.Add(source.Problem{File: s.Path, Line: at.Line, Col: at.Column, Text: "notify: " + name + ": "}.Because(err))
		}
	}
	address := func(text string) error {
		if t.URL = text; variableOf(text) != "" {
			return nil // checked when the variable is expanded
		}
		_, _, err := ServiceOf(text)
		return err
	}
	if n.Kind == yaml.ScalarNode {
		set(n, "url", address)
		return t, t.URL != ""
	}
	s.Pairs(n, "notify", func(k, v *yaml.Node) {
		switch k.Value {
		case "url":
			set(v, k.Value, address)
		case "command":
			set(v, k.Value, func(text string) error { t.Command = text; return nil })
		case "min_duration":
			set(v, k.Value, func(text string) (err error) { t.MinDuration, err = source.ParseDuration(text); return err })
		case "on":
			t.On = nil
			for _, item := range s.Items(v, "notify: on") {
				set(item, k.Value, func(text string) error {
					if slices.Contains(NotifyEvents, text) && !slices.Contains(news, text) {
						return source.Faultf("move it under settings, or use one of "+strings.Join(news, ", "), "%s is a run event, not a job event", text)
					}
					word, err := source.ParseWord(text, news...)
					t.On = append(t.On, word)
					return err
				})
			}
		default:
			valid := []string{"url", "command", "on", "min_duration"}
			s.Problem(k.Line, k.Column, source.DidYouMean(k.Value, valid, "valid keys: "+strings.Join(valid, ", ")), "unknown key %q in notify", k.Value)
		}
	})
	if n.Kind == yaml.MappingNode && (t.URL == "") == (t.Command == "") {
		s.Problem(n.Line, n.Column, "write url: $MY_WEBHOOK, or command: …", "notify needs exactly one of url and command")
		return t, false
	}
	return t, t.URL+t.Command != ""
}

// parseNotify parses the result of notifyText.
func parseNotify(text string) (all []Notify, err error) {
	for line := range strings.Lines(text) {
		var t Notify
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			return nil, fmt.Errorf("not read from a file")
		}
		if !slices.ContainsFunc(all, t.Same) {
			all = append(all, t)
		}
	}
	return all, nil
}

// SpellNotify formats targets for a YAML file. The result contains their URLs, and thus any secrets
// in them.
func SpellNotify(all []Notify) string {
	items := make([]string, len(all))
	for i, t := range all {
		key, value := "url", t.URL
		if t.Command != "" {
			key, value = "command", t.Command
		}
		items[i] = fmt.Sprintf("{%s: %s, on: [%s]", key, strconv.Quote(value), strings.Join(t.On, ", "))
		if t.MinDuration > 0 {
			items[i] += ", min_duration: " + source.FormatDuration(t.MinDuration)
		}
		items[i] += "}"
	}
	return "[" + strings.Join(items, ", ") + "]"
}
