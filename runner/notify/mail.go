package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"gpurun/state/schema"
)

// mail sends a message by SMTP, to a URL such as
// smtps://user:password@host:465?to=a@example.org,b@example.org. With an smtp: URL, it uses encryption
// if the server supports it. A password is never sent unencrypted to another host.
func mail(ctx context.Context, o *order) outcome {
	u, err := url.Parse(o.URL)
	if err != nil {
		return outcome{Class: badURL}
	}
	err = submit(ctx, u, &o.Notification)
	var says *textproto.Error
	switch {
	case err == nil:
		return outcome{Class: delivered}
	case errors.Is(err, errPlain):
		return outcome{Class: unencrypted}
	case errors.As(err, &says) && (says.Code == 535 || says.Code == 530 || says.Code == 534):
		return outcome{Class: unauthorized, Code: says.Code}
	case errors.As(err, &says) && says.Code >= 500:
		return outcome{Class: refused, Code: says.Code}
	case errors.As(err, &says):
		return outcome{Class: troubled, Code: says.Code}
	}
	return classOf(err)
}

var errPlain = errors.New("the server does not support encryption")

func submit(ctx context.Context, u *url.URL, n *schema.Notification) error {
	host := u.Hostname()
	port := cmp.Or(u.Port(), map[string]string{"smtps": "465"}[u.Scheme], "587")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	crypt := &tls.Config{ServerName: host}
	if u.Scheme == "smtps" {
		conn = tls.Client(conn, crypt)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	encrypted := u.Scheme == "smtps"
	if ok, _ := c.Extension("STARTTLS"); ok && !encrypted {
		if err := c.StartTLS(crypt); err != nil {
			return err
		}
		encrypted = true
	}
	if password, ok := u.User.Password(); ok {
		if !encrypted && host != "localhost" && host != "127.0.0.1" && host != "::1" {
			return errPlain
		}
		if err := c.Auth(smtp.PlainAuth("", u.User.Username(), password, host)); err != nil {
			return err
		}
	}
	query, _ := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // as in me+gpu@example.org
	to := addresses(query.Get("to"))
	user := u.User.Username()
	if !strings.Contains(user, "@") {
		user = "" // not an address
	}
	from := cmp.Or(strings.Join(addresses(query.Get("from")), ","), user, to[0])
	if err := c.Mail(from); err != nil {
		return err
	}
	for _, who := range to {
		if err := c.Rcpt(who); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(letter(from, to, n)); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // the server did not answer 250
		return err
	}
	_ = c.Quit()
	return nil
}

// addresses returns the addresses in a list such as "Ann <ann@example.org>, bob@example.org".
func addresses(list string) []string {
	all := strings.Split(list, ",")
	for i, who := range all {
		all[i] = strings.TrimSpace(who)
		if named, err := netmail.ParseAddress(who); err == nil {
			all[i] = named.Address
		}
	}
	return all
}

func letter(from string, to []string, n *schema.Notification) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\n", header(from), header(strings.Join(to, ", ")), mime.QEncoding.Encode("utf-8", n.Title), n.Now.Format(time.RFC1123Z))
	b.WriteString("MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\nAuto-Submitted: auto-generated\r\n\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.ReplaceAll(n.Message, "\n", "\r\n") + "\r\n"))
	_ = w.Close()
	return b.Bytes()
}

// header prevents a value from starting another header.
func header(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }
