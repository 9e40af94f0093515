// A temporary home directory with batches and `gpurun web`, for the tests of the page.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const gpurun = process.env.GPURUN;

export class Home {
  constructor(env = {}) {
    this.home = mkdtempSync(path.join(tmpdir(), 'gpurun-page-'));
    this.dir = path.join(this.home, 'lab');
    const claims = path.join(this.home, 'claims'); // separate, so that other runs on this machine do not take cores from its jobs
    for (const dir of [this.dir, claims]) mkdirSync(dir);
    this.env = { ...process.env, HOME: this.home, XDG_STATE_HOME: path.join(this.home, 'state'), GPURUN_HOST_RULES: '/dev/null', GPURUN_CLAIMS_DIR: claims, NO_COLOR: '1', ...env };
    this.port = 0;
  }

  write(name, text) { writeFileSync(path.join(this.dir, name), text); }

  gpurun(...args) {
    return execFileSync(gpurun, args, { cwd: this.dir, env: this.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000 });
  }

  // serve starts the server, on its previous port if it had one.
  async serve(...args) {
    this.server = spawn(gpurun, ['web', '--listen', `127.0.0.1:${this.port}`, ...args], { cwd: this.dir, env: this.env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    await new Promise((resolve, reject) => {
      const heard = (b) => {
        said += b;
        const m = /http:\/\/127\.0\.0\.1:(\d+)\//.exec(said);
        if (m) { this.port = Number(m[1]); resolve(); }
      };
      this.server.stdout.on('data', heard);
      this.server.stderr.on('data', heard);
      this.server.on('exit', () => reject(new Error(`gpurun web ended: ${said}`)));
      setTimeout(() => reject(new Error(`gpurun web printed no address within a minute: ${said}`)), 60_000).unref();
    });
    this.server.removeAllListeners('exit');
    this.origin = `http://127.0.0.1:${this.port}/`;
  }

  token(kind = 'control') {
    return readFileSync(path.join(this.env.XDG_STATE_HOME, 'gpurun', kind === 'control' ? 'web-control.token' : 'web.token'), 'utf8').trim();
  }

  async kill(signal = 'SIGKILL') {
    if (!this.server || this.server.exitCode != null || this.server.signalCode != null) return;
    const over = new Promise((r) => this.server.once('exit', r));
    this.server.kill(signal);
    await over;
  }

  async api(path, kind) {
    const res = await fetch(`${this.origin}api/v1${path}`, { headers: { Authorization: `Bearer ${this.token(kind)}` } });
    if (!res.ok) throw new Error(`${path}: status ${res.status}: ${await res.text()}`);
    return res.json();
  }

  async end(...files) {
    await this.kill();
    for (const f of files) {
      try { this.gpurun('stop', '--file', f); } catch { /* the run has ended */ }
      try { this.gpurun('wait', '--file', f, '--timeout', '60s'); } catch (err) { if (err.status == null || err.status === 75) throw err; } // any other status is the run's
    }
    rmSync(this.home, { recursive: true, force: true });
  }
}
