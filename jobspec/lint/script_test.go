package lint

import (
	"strings"
	"testing"
)

// found lists the names of the findings, with "?" for warnings.
func found(r scriptReport) string {
	var names []string
	for _, f := range r.Findings {
		name := f.Lint
		if f.Warn {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// testJob returns a job with placeholders of every kind, and a replacer that inserts them into a command.
func testJob(gpus int) (scriptJob, *strings.Replacer) {
	placeholders := []placeholder{
		{Spelt: "{seed}", Values: []string{"1", "2"}},
		{Spelt: "{device}", Values: []string{"0", "1", "2", "3"}},
		{Spelt: "{prompt}", Values: []string{"cat", "a photo of a cat"}},
		{Spelt: "{gpu_list}", Granted: true},
		{Spelt: "{port}"},
		{Spelt: "{flags}", Values: []string{"--lr 0.1 --bs 3"}},
		{Spelt: "{say}", Values: []string{`it"s`}},
		{Spelt: "{widths}", Values: []string{"64", "10 10 10 10"}},
		{Spelt: "{shift}", Values: []string{"-0.5 0.5"}},
		{Spelt: "{y}", Values: []string{"1", ""}},
		{Spelt: "{amp}", Values: []string{"", "--amp"}},
	}
	var pairs []string
	for i, h := range placeholders {
		pairs = append(pairs, h.Spelt, string(placeholderRune(i)))
	}
	return scriptJob{Placeholders: placeholders, Env: map[string]string{"FIXED": "3"}, GPUs: gpus, Conda: "eval"}, strings.NewReplacer(pairs...)
}

func TestCheckScriptFindings(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"pin", "CUDA_VISIBLE_DEVICES=2 python a.py", "pinned"},
		{"pin exported", "export CUDA_VISIBLE_DEVICES=2,3\npython a.py", "pinned"},
		{"pin by env", "env CUDA_VISIBLE_DEVICES=2 python a.py", "pinned"},
		{"pin after cd", "cd x && CUDA_VISIBLE_DEVICES=0 python a.py", "pinned"},
		{"pin in nohup", "nohup env CUDA_VISIBLE_DEVICES=0 python a.py", "pinned"},
		{"empty", "CUDA_VISIBLE_DEVICES= python a.py; CUDA_VISIBLE_DEVICES=-1 python b.py; CUDA_VISIBLE_DEVICES='' c", ""},
		{"derived", "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*} python a.py", ""},
		{"derived by default", "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} python a.py", ""},
		{"derived by read", `IFS=, read -ra d <<< "$CUDA_VISIBLE_DEVICES"; CUDA_VISIBLE_DEVICES=${d[0]} python a.py`, ""},
		{"derived by a loop", `for d in ${CUDA_VISIBLE_DEVICES//,/ }; do CUDA_VISIBLE_DEVICES=$d python a.py & done; wait`, ""},
		{"in a comment", "# CUDA_VISIBLE_DEVICES=2\npython a.py # cuda:3", ""},
		{"in a quote", "echo 'CUDA_VISIBLE_DEVICES=2 python a.py'", ""},
		{"in a here-document", "cat <<EOF\nCUDA_VISIBLE_DEVICES=2\nEOF", ""},
		{"of a variable", "GPU=2\nCUDA_VISIBLE_DEVICES=$GPU python a.py", "pinned"},
		{"of a variable of env", "CUDA_VISIBLE_DEVICES=$FIXED python a.py", "pinned"},
		{"of a loop", "for g in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$g python a.py & done; wait", "pinned"},
		{"of a range", "for g in {0..3}; do CUDA_VISIBLE_DEVICES=$g python a.py & done; wait", "pinned"},
		{"of seq", "for g in $(seq 0 3); do CUDA_VISIBLE_DEVICES=$g python a.py & done; wait", "pinned"},
		{"of an array", "gpus=(0 1); CUDA_VISIBLE_DEVICES=${gpus[$i]} python a.py", "pinned"},
		{"counted", "for ((i=0;i<8;i++)); do CUDA_VISIBLE_DEVICES=$((i%4)) python a.py & done; wait", "pinned"},
		{"of an argument", "CUDA_VISIBLE_DEVICES=$1 python a.py", "pinned?"},
		{"of a command", "CUDA_VISIBLE_DEVICES=$(freest) python a.py", "pinned?"},
		{"of a variable from outside", "CUDA_VISIBLE_DEVICES=$GPU python a.py", "pinned?"},
		{"of a variable set by condition", "[ -n \"$GPU\" ] || GPU=0\nCUDA_VISIBLE_DEVICES=$GPU python a.py", "pinned?"},
		{"by condition", "if [ -f x ]; then export CUDA_VISIBLE_DEVICES=1; fi; python a.py", "pinned?"},
		{"of a parameter", "CUDA_VISIBLE_DEVICES={device} python a.py", "pinned"},
		{"of the grant", "CUDA_VISIBLE_DEVICES={gpu_list} python a.py", ""},
		{"unset", "unset CUDA_VISIBLE_DEVICES; python a.py", "pinned?"},
		{"within bash -c", "bash -c 'CUDA_VISIBLE_DEVICES=2 python a.py'", "pinned"},
		{"within a substitution", "x=$(CUDA_VISIBLE_DEVICES=2 python a.py)", "pinned"},
		{"circular variables", "a=$b; b=$a; CUDA_VISIBLE_DEVICES=$a python a.py", "pinned"},

		{"device", "python a.py --device cuda:3", "pinned"},
		{"granted device", "python a.py --device cuda:0 --x=cuda:1", ""},
		{"device joined", "python a.py --device=cuda:2", "pinned"},
		{"device of a parameter", "python a.py --device cuda:{device}", "pinned"},
		{"device of the host", "python a.py --device cuda:{gpu_list}", "pinned?"},
		{"device in python", `python -c "import torch; torch.zeros(1, device='cuda:5')"`, "pinned"},
		{"version of CUDA", "pip install cuda:12.4 nvidia/cuda:11.8-base", ""},
		{"device that is echoed", "echo cuda:3", ""},
		{"gpu", "python a.py --gpu 2", "pinned"},
		{"gpu joined", "python a.py --gpu=5", "pinned"},
		{"granted gpu", "python a.py --gpu 1 --gpu_ids 0,1", ""},
		{"gpu ids", "python a.py --gpu_ids 0,1,2", "pinned"},
		{"gpu ids apart", "python a.py --gpu_ids 0 1 2 --lr 3", "pinned"},
		{"gpu of a loop", "for g in 0 1 2 3; do python a.py --gpu $g & done; wait", "pinned"},
		{"no gpu", "python a.py --gpu -1; python a.py --gpu all", ""},
		{"deepspeed", "deepspeed --include localhost:0,1 a.py", "pinned"},
		{"deepspeed joined", "deepspeed --include=localhost:2 a.py", "pinned"},
		{"deepspeed granted", "deepspeed --include localhost:$CUDA_VISIBLE_DEVICES a.py; deepspeed --include localhost:{gpu_list} a.py", ""},
		{"accelerate", "accelerate launch --gpu_ids 0,1 a.py", "pinned"},
		{"accelerate all", "accelerate launch --gpu_ids all a.py", ""},
		{"accelerate's program has the option", "accelerate launch a.py --gpu_ids 0; accelerate launch -m a.b --gpu_ids 0,1", ""},
		{"deepspeed's program has the option", "deepspeed a.py -i input.txt --include x", ""},
		{"empty by a word", "CUDA_VISIBLE_DEVICES=NoDevFiles python a.py; CUDA_VISIBLE_DEVICES=none b", ""},
		{"a GPU by its UUID", "CUDA_VISIBLE_DEVICES=GPU-8932f937 python a.py", "pinned"},
		{"tag of an image", `docker run --gpus "device={gpu_list}" nvidia/cuda:12-base python a.py; apptainer exec docker://nvidia/cuda:11-runtime x`, ""},
		{"device in a name", "python a.py --out cuda:3_runs", ""},
		{"gpu without a value", "python a.py --gpu --batch 8", ""},
		{"gpu before other words", "python a.py --gpu 0 8 16", ""},
		{"docker all", "docker run --rm --gpus all image python a.py", "pinned"},
		{"docker device", `docker run --gpus '"device=2"' image`, "pinned"},
		{"docker granted", `docker run --gpus "\"device=$CUDA_VISIBLE_DEVICES\"" image; docker run --gpus '"device={gpu_list}"' image`, ""},
		{"docker env", "docker run -e CUDA_VISIBLE_DEVICES=2 image; docker run --env=NVIDIA_VISIBLE_DEVICES=all i", "pinned pinned"},
		{"docker env passed on", "docker run -e CUDA_VISIBLE_DEVICES -e NVIDIA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES image", ""},
		{"docker after the image", "docker run --rm -v /a:/b -p 80:80 image python a.py -d --gpus all", ""},

		{"background", "python a.py &", "background"},
		{"nohup", "nohup python train.py > log 2>&1 &", "background"},
		{"background after cd", "cd x && python a.py &", "background"},
		{"background and echo", "python a.py &\necho started $!", "background"},
		{"background loop", "for s in 1 2; do\n python a.py $s &\n sleep 5\ndone", "background"},
		{"background branch", "if [ -f x ]; then python a.py & else python b.py; fi", "background"},
		{"background group", "(cd x; python a.py) &", "background"},
		{"background function", "go() { python a.py $1 & }\ngo 1\ngo 2", "background"},
		{"waited for", "python a.py & python b.py & wait", ""},
		{"waited for one by one", "for s in 1 2; do python a.py & p+=($!); done; for q in ${p[@]}; do wait $q; done", ""},
		{"waited for in batches", "for s in 1 2 3; do python a.py & ((s%2)) || wait; done", ""},
		{"watched", "gpustat -i > gpu.log &\npython a.py", ""},
		{"no background", "a && b || c; d 2>&1 | tee log; e &> log", ""},
		{"waited for in a trap", "trap 'wait' EXIT; python a.py &", ""},

		{"docker -d", "docker run -d image", "detached"},
		{"docker -itd", "docker run --rm -itd --name x image", "detached"},
		{"docker --detach", "docker run --detach image python a.py", "detached"},
		{"docker -dp", "docker run -dp 80:80 image; docker run -itdv/a:/b image", "detached detached"},
		{"docker -d=true", "docker run -d=true image; docker run -itd=true image; docker run --detach=true image", "detached detached detached"},
		{"docker -d=false", "docker run -d=false image; docker run --detach=false image; docker run -ite d image -d", ""},
		{"docker -ite", "docker run -ite CUDA_VISIBLE_DEVICES=2 image; docker run -e=CUDA_VISIBLE_DEVICES=2 image", "pinned pinned"},
		{"podman and nerdctl", "podman run -d image; nerdctl run -dp 80:80 image", "detached detached"},
		{"docker waited for", "docker run -d --name x image; docker wait x", ""},
		{"tmux", "tmux new -d -s a 'python a.py'", "detached"},
		{"tmux -ds", "tmux new-session -ds a 'python a.py'", "detached"},
		{"screen", "screen -dmS a python a.py", "detached"},
		{"screen apart", "screen -S a -d -m python a.py", "detached"},
		{"screen in the foreground", "screen -D -m python a.py", ""},
		{"sbatch", "sbatch job.sh", "detached"},
		{"sbatch waits", "sbatch --wait job.sh", ""},
		{"qsub", "qsub job.sh", "detached"},
		{"tsp", "tsp -L a python a.py -f x", "detached"},
		{"tsp in the foreground", "tsp -nf python a.py; tsp; tsp -S 4; tsp -k 3", ""},
		{"tsp waited for", "tsp python a.py; tsp -w", ""},
		{"gbatch", "gbatch --gpus 1 python a.py", "detached"},
		{"gbatch that does nothing", "gbatch --dry-run python a.py; gbatch new x; gbatch", ""},
		{"by condition detached", "command -v tmux && tmux new -d 'python a.py'", "detached?"},

		{"port", "torchrun --master_port 29500 a.py", "fixed-port?"},
		{"port joined", "torchrun --master-port=29501 a.py", "fixed-port?"},
		{"port of env", "export MASTER_PORT=12355; torchrun a.py", "fixed-port?"},
		{"port given", "torchrun --master_port {port} a.py; torchrun --master_port $MASTER_PORT a.py; torchrun --master_port 0 a.py", ""},

		{"docker for docker exec", "docker run -d --name x image sleep infinity\ndocker exec x python a.py\ndocker rm -f x", "detached?"},
		{"docker -d for a service", "docker run -d redis; python a.py", "detached?"},
		{"docker -d after a clean-up", "docker rm -f x; docker run -d --name x image; docker ps; echo started", "detached"},
		{"tmux with its keys", "tmux new -s a -d; tmux send-keys -t a 'python a.py' Enter", "detached"},

		{"conda", "conda activate x\npython a.py", "conda?"},
		{"conda hooked", "eval \"$(conda shell.bash hook)\"\nconda activate x", ""},
		{"conda sourced", "source ~/miniconda3/etc/profile.d/conda.sh && conda activate x", ""},
		{"conda run", "conda run -n x python a.py", ""},

		{"prompt", "python a.py --prompt {prompt}", "unquoted?"},
		{"prompt quoted", `python a.py --prompt "{prompt}" '{prompt}'`, ""},
		{"quote in a quote", `python a.py --say "{say}"`, "unquoted?"},
		{"options", "python a.py {flags}", ""},
		{"several numbers", "python a.py --w {widths} {shift}", "unquoted? unquoted?"},
		{"empty value", "python a.py --y {y} --z 1", "unquoted?"},
		{"empty value that shifts no arguments", `python a.py --y "{y}" --y={y} {y} --y x{y}; {y}`, ""},
		{"option or none", "python a.py --v {amp}", ""},
		{"command of a parameter", "{prompt} --x", ""},
		{"loop over a parameter", "for p in {prompt}; do echo $p; done", ""},
		{"invalid shell syntax", "python a.py (", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job, placeholders := testJob(2)
			r := checkScript(placeholders.Replace(tt.script), job)
			if got := found(r); got != tt.want {
				t.Errorf("%s\ngot %q, want %q\n%+v", tt.script, got, tt.want, r.Findings)
			}
		})
	}
}

func TestScriptsInCommandAreFound(t *testing.T) {
	tests := []struct{ script, want string }{
		{"bash run.sh 1", "run.sh"},
		{"sh -e sub/run.sh", "sub/run.sh"},
		{"./run.sh; source env.sh", "run.sh env.sh"},
		{"python -u train.py --x b.py", "train.py"},
		{"cd exp && python train.py", "exp/train.py"},
		{"cd $X && python train.py", ""},
		{"nohup torchrun --nproc_per_node 2 train.py", "train.py"},
		{"python -m torch.distributed.run --nproc 2 train.py", "train.py"},
		{"python -m exp.train --x y", "exp/train.py"},
		{"cp a.sh b.sh", ""},
		{"bash -c 'x'", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(checkScript(tt.script, scriptJob{GPUs: 1}).Scripts, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.script, got, tt.want)
		}
	}
}

func TestPythonFindings(t *testing.T) {
	const text = `import os
# os.environ["CUDA_VISIBLE_DEVICES"] = "7"
os.environ["CUDA_VISIBLE_DEVICES"] = "2"
os.environ['CUDA_VISIBLE_DEVICES'] = ''
p.add_argument("--device", default="cuda:5")
d = torch.device("cuda:1")
torch.cuda.set_device(0)
`
	r := checkPython(text, scriptJob{GPUs: 1})
	if found(r) != "pinned? pinned?" || r.Findings[0].Line != 3 || r.Findings[1].Line != 6 {
		t.Errorf("got %+v, want warnings in lines 3 and 6", r.Findings)
	}
}

// Deep nesting makes the parser recurse, and ambiguous syntax makes it parse twice. If that takes
// exponential time, the test times out.
func TestDeepNestingDoesNotHang(t *testing.T) {
	for _, unit := range []string{"(", "((", "$((", "$(", "`", "\"$(", "{ ", "[[ ", "if x; then ", "${x:-", "a=$b$b;b=$c$c;c=$d$d;", "<<E\n", "for x in ", "case x in ", "\\`", "<(", "$(( ( "} {
		text := "CUDA_VISIBLE_DEVICES=$a x\n" + strings.Repeat(unit, 40_000/len(unit))
		checkScript(text, scriptJob{})
	}
	var b strings.Builder
	for c := 'a'; c < 'z'; c++ {
		b.WriteString(string(c) + "=$" + string(c+1) + "$" + string(c+1) + "\n")
	}
	checkScript(b.String()+"z=1; CUDA_VISIBLE_DEVICES=$a x", scriptJob{})
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{
		"for g in {0..3}; do CUDA_VISIBLE_DEVICES=$g python a.py --gpu $g & done; wait", "docker run -itd --gpus all -e A=B image x",
		"tmux new -ds a 'x'; bash -c 'bash -c \"y &\"'", "a=$b; b=$((a+1)); x ${a[@]:0:1} <<< \"$a\"", "cat <<E\n$(x &)\nE", "cd $(y) && . z", "env -u A B=\uE001 x",
	} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, gpus int) {
		if len(text) > 4096 {
			return
		}
		job, _ := testJob(gpus)
		r := checkScript(text, job)
		checkPython(text, job)
		for _, f := range r.Findings {
			if f.Lint == "" || f.Text == "" || f.Line < 1 {
				t.Errorf("incomplete finding %+v", f)
			}
		}
	})
}
