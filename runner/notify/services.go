package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gpurun/state/schema"
)

// A shape is the request format of a service.
type shape struct {
	body    func(n *schema.Notification, u *url.URL) any // becomes JSON, unless it is a string
	refuses string                                       // field that is nonzero in a 2xx answer if the message was refused
}

type object = map[string]any

// text returns a message for services without titles.
func text(n *schema.Notification) string { return strings.TrimSpace(n.Title + "\n" + n.Message) }

// bot returns a message for DingTalk or WeCom.
func bot(n *schema.Notification, _ *url.URL) any {
	return object{"msgtype": "text", "text": object{"content": text(n)}}
}

// slackEscapes prevent <!channel> in a log from notifying everyone.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// shapes are the formats of jobspec's services.
var shapes = map[string]shape{
	"slack": {body: func(n *schema.Notification, _ *url.URL) any { return object{"text": slackEscapes.Replace(text(n))} }},
	"discord": {body: func(n *schema.Notification, _ *url.URL) any {
		return object{"content": text(n), "allowed_mentions": object{"parse": []string{}}}
	}},
	"telegram": {body: func(n *schema.Notification, u *url.URL) any {
		return object{"chat_id": u.Query().Get("chat_id"), "text": text(n), "disable_web_page_preview": true}
	}},
	"ntfy": {body: func(n *schema.Notification, _ *url.URL) any { return n.Message }},
	"teams": {body: func(n *schema.Notification, _ *url.URL) any {
		line := func(s, weight string) object {
			return object{"type": "TextBlock", "text": strings.ReplaceAll(s, "\n", "\n\n"), "wrap": true, "weight": weight}
		}
		card := object{"type": "AdaptiveCard", "version": "1.2", "body": []object{line(n.Title, "Bolder"), line(n.Message, "Default")}}
		return object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}
	}},
	"feishu": {body: func(n *schema.Notification, _ *url.URL) any {
		return object{"msg_type": "text", "content": object{"text": text(n)}}
	}, refuses: "code"},
	"dingtalk": {body: bot, refuses: "errcode"},
	"wecom":    {body: bot, refuses: "errcode"},
	"webhook":  {body: func(n *schema.Notification, _ *url.URL) any { return n }},
}

// post sends a message to a service over HTTP.
func post(ctx context.Context, o *order) outcome {
	u, err := url.Parse(o.URL)
	if err != nil {
		return outcome{Class: badURL}
	}
	s := shapes[o.Service]
	body := s.body(&o.Notification, u)
	raw, kind := []byte(nil), "application/json"
	if plain, ok := body.(string); ok {
		raw, kind = []byte(plain), "text/plain; charset=utf-8"
	} else if raw, err = json.Marshal(body); err != nil {
		return outcome{Class: badURL}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(raw))
	if err != nil {
		return outcome{Class: badURL}
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "gpurun")
	if o.Service == "ntfy" {
		req.Header.Set("Title", mime.QEncoding.Encode("utf-8", o.Notification.Title))
	}
	// A redirect would turn the POST into a GET of, say, a login page, which returns 200.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Do(req)
	if err != nil {
		return classOf(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	switch {
	case r.StatusCode/100 != 2:
		return outcome{Class: classOfStatus(r.StatusCode), Code: r.StatusCode}
	case err != nil && s.refuses != "":
		return classOf(err)
	case s.refuses != "":
		var says map[string]any
		_ = json.Unmarshal(answer, &says)
		if n, ok := says[s.refuses].(float64); ok && n != 0 {
			return outcome{Class: refused, Code: int(n)}
		}
	}
	return outcome{Class: delivered}
}

// limit is the maximum duration of one try.
const limit = 10 * time.Second
