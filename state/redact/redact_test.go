package redact

import (
	"strings"
	"testing"
)

func TestTextHidesOnlySecrets(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"python train.py --api-key sk-abc --lr 0.1", "python train.py --api-key *** --lr 0.1"},
		{"python train.py --token=abc --lr=0.1", "python train.py --token=*** --lr=0.1"},
		{"WANDB_API_KEY=0123abc python train.py", "WANDB_API_KEY=*** python train.py"},
		{"export HF_TOKEN='a b c'; python x.py", "export HF_TOKEN=***; python x.py"},
		{`PGPASSWORD="a \" b" psql`, "PGPASSWORD=*** psql"},
		{"docker run -e MYSQL_PWD=x -e A=b img", "docker run -e MYSQL_PWD=*** -e A=b img"},
		{"AWS_ACCESS_KEY_ID=AKIA0 aws", "AWS_ACCESS_KEY_ID=*** aws"},
		{"curl https://alice:s3cret@host/x", "curl https://alice:***@host/x"},
		{"pip install git+https://ghp0123@github.com/a/b", "pip install git+https://ghp0123@github.com/a/b"},
		{"git clone https://abc@github.com/a/b ssh://git@host/c", "git clone https://***@github.com/a/b ssh://git@host/c"},
		{"curl 'https://host/x?token=abc&page=2'", "curl 'https://host/x?token=***&page=2'"},
		{`{"api_key": "abc", "lr": 0.1}`, `{"api_key": ***, "lr": 0.1}`},
		{`{"token": "abc"}`, `{"token": ***}`},
		{"hydra.run wandb.api_key=abc model=x", "hydra.run wandb.api_key=*** model=x"},
		{`curl -H "Authorization: Bearer abcdefgh"`, `curl -H "Authorization: Bearer ***"`},
		{"login with hf_abcdefghijklmnopqrstuvwx done", "login with *** done"},
		{"password: hunter2", "password: ***"},
		{"--authToken abc", "--authToken ***"},
		// References to secrets stay.
		{"train --token $HF_TOKEN", "train --token $HF_TOKEN"},
		{`train --token "${HF_TOKEN}"`, `train --token "${HF_TOKEN}"`},
		{"TOKEN=$(cat ~/.token) train", "TOKEN=$(cat ~/.token) train"},
		// These contain no secrets.
		{"train --max-tokens 4096 --tokenizer gpt2 --key_dim 64 --token_type bpe", "train --max-tokens 4096 --tokenizer gpt2 --key_dim 64 --token_type bpe"},
		{"KeyError: 'lr'", "KeyError: 'lr'"},
		{"Unexpected key: fc.weight", "Unexpected key: fc.weight"},
		{"train --token --lr 0.1", "train --token --lr 0.1"},
		{"cd $PWD; PWD=/x OLDPWD=/y true", "cd $PWD; PWD=/x OLDPWD=/y true"},
		{"--monkey 3 --bypass 2", "--monkey 3 --bypass 2"},
		{"", ""},
	} {
		if got := Text(c.in); got != c.want {
			t.Errorf("Text(%q)\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

func TestValueHidesSecretNames(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"WANDB_API_KEY", "abc", Mask},
		{"apiKey2", "abc", Mask},
		{"secret", "1", Mask},
		{"TOKEN_PROD", "abc", Mask},
		{"seed", "42", "42"},
		{"max_tokens", "4096", "4096"},
		{"key_dim", "64", "64"},
		{"url", "https://a:b@c/", "https://a:***@c/"},
		{"HF_TOKEN", "$MY_TOKEN", "$MY_TOKEN"},
		{"HF_TOKEN", "", ""},
	} {
		if got := Value(c.name, c.value); got != c.want {
			t.Errorf("Value(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

// A secret passed in one of the usual ways must be hidden in any context. Redacting the result
// again must not change it.
func FuzzText(f *testing.F) {
	f.Add("python ", " --lr 0.1")
	f.Add("a='b c", "' x")
	f.Add(`{"x": "`, `"}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "s3cr3tV4lue"
		if strings.Contains(before+after, secret) {
			return
		}
		for _, way := range []string{"\nWANDB_API_KEY=", "\n --token ", "\n --password=", "\nhttps://alice:"} {
			end := " "
			if strings.Contains(way, "://") {
				end = "@host "
			}
			got := Text(before + way + secret + end + after)
			if strings.Contains(got, secret) {
				t.Errorf("%q is still in %q", secret, got)
			}
			if again := Text(got); again != got {
				t.Errorf("redacting %q again gives %q", got, again)
			}
		}
	})
}

func TestHidingHidesSecretsAnywhere(t *testing.T) {
	hide := Hiding(Secrets(map[string]string{"api_key": "k3yk3y", "hf_token": "k3yk3yk3y", "pass": "1", "lr": "0.100000", "WANDB_API_KEY": "$WANDB_API_KEY"}))
	for in, want := range map[string]string{
		"python x.py k3yk3yk3y k3yk3y 1": "python x.py *** *** 1", "echo 0.100000 $WANDB_API_KEY": "echo 0.100000 $WANDB_API_KEY", "--token=x ak3yk3y-b": "--token=*** a***-b",
	} {
		if got := hide(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
